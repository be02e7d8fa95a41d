"""Starting values from the data."""
