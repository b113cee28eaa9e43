"""The plugin types: where their classes are found, what each takes and serves."""
