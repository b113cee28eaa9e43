"""Pure helpers that several plugins use."""
