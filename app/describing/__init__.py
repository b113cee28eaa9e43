"""Describes a configuration and the plugin types: effective YAML, JSON Schema, examples, tables and Markdown."""
