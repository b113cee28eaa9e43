"""The policies. One class per file, a folder per extension point; they import `pointsman` and `plugins.shared`."""
