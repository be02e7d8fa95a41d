"""Likelihoods: the distribution of an observation, given the function."""

from deeplfm.likelihoods.base import Components, Likelihood, mask_missing
from deeplfm.likelihoods.gaussian import Gaussian
from deeplfm.likelihoods.mixture_density import MixtureDensity

__all__ = ["Components", "Gaussian", "Likelihood", "MixtureDensity", "mask_missing"]
