"""The built-in plugins: one class per file, one folder per extension point.

They import `pointsman` and `plugins.shared` only.
"""
