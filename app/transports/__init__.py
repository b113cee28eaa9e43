"""How requests reach us. Thin: no policy in here."""
