"""Experiments: models, data and scores, declared and run."""
