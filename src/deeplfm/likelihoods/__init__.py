"""Likelihoods: the distribution of an observation, given the function."""

from deeplfm.likelihoods.base import Components, Gaussian, Likelihood, mask_missing
from deeplfm.likelihoods.mixture_density import MixtureDensity

__all__ = ["Components", "Gaussian", "Likelihood", "MixtureDensity", "mask_missing"]
