"""Data: simulated systems."""
