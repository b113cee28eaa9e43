"""The commands of `pointsman`, one file each."""
