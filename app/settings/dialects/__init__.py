"""The forms in which a document may say which plugins run, and their translation into the one of the schema."""
