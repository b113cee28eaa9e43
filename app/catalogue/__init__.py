"""Finds plugin classes and describes each as a plugin type: its parameters, services and extension points."""
