"""Predictive distributions: mixtures, log-normal targets, and scores."""
