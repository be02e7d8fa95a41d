"""Likelihoods: what an observation is, given the function."""

from deeplfm.likelihoods.base import Components, Likelihood, mask_missing
from deeplfm.likelihoods.bells import Bells
from deeplfm.likelihoods.gaussian import Gaussian

__all__ = ["Bells", "Components", "Gaussian", "Likelihood", "mask_missing"]
