"""Latent force models in state-space form: exact, and linear in the number of rows."""

from deeplfm.statespace.config import SeasonConfig, StateSpaceConfig
from deeplfm.statespace.model import StateSpaceLFM

__all__ = ["SeasonConfig", "StateSpaceConfig", "StateSpaceLFM"]
