"""Pure helpers that several plugins need."""
