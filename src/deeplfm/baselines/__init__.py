"""The systems to compare with."""
