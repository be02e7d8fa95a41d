"""Latent force models in state-space form: exact, and linear in the number of rows."""

from deeplfm.statespace.clocks import ClocksLFM
from deeplfm.statespace.clocks_config import ClocksConfig
from deeplfm.statespace.config import PRIOR, Prior, SeasonConfig, StateSpaceConfig
from deeplfm.statespace.model import StateSpaceLFM
from deeplfm.statespace.others import OtherOutputsLFM
from deeplfm.statespace.shared import SharedForcesLFM

__all__ = [
    "PRIOR",
    "ClocksConfig",
    "ClocksLFM",
    "OtherOutputsLFM",
    "Prior",
    "SeasonConfig",
    "SharedForcesLFM",
    "StateSpaceConfig",
    "StateSpaceLFM",
]
