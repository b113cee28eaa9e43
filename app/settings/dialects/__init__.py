"""Alternative forms for declaring plugins and profiles, and their translation to the form of the schema."""
