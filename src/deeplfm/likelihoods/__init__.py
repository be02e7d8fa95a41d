"""Likelihoods: what an observation is, given the function."""

from deeplfm.likelihoods.gaussian import Gaussian, mask_missing

__all__ = ["Gaussian", "mask_missing"]
