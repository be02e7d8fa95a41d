"""Files: atomic writes, versions, and models on disk."""
