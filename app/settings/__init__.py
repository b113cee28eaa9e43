"""The shape of the YAML: reading it strictly, laying layers over each other, telling what is wrong and where."""
