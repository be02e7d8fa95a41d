"""The paper's experiments, declared: one module for each kind of data."""
