"""Terms: a model is a sum of them.

>>> from deeplfm.terms import LocalLevel, Season, Trend, parse
>>> str(Trend() + Season(12) + LocalLevel(damped=True))
'trend + season(12) + level(damped=True)'
>>> parse("trend + season('1D') + level")
Trend() + Season('1D') + LocalLevel()
"""

from deeplfm.terms.base import NAMED_MODELS, TERMS, BuildContext, NamedModel, Term
from deeplfm.terms.broad_band import BroadBand
from deeplfm.terms.composition import Composition
from deeplfm.terms.covariates import Covariates
from deeplfm.terms.deep import Deep
from deeplfm.terms.dlfm import Dlfm
from deeplfm.terms.grammar import from_json, parse, to_json
from deeplfm.terms.local_level import LocalLevel, MeanReversion, Trend
from deeplfm.terms.other_outputs import OtherOutputs
from deeplfm.terms.paper import Paper, Reference
from deeplfm.terms.season import Season
from deeplfm.terms.shared_forces import SharedForces
from deeplfm.terms.shared_season import SharedSeason
from deeplfm.terms.sinusoids import Sinusoids
from deeplfm.terms.sums import Sum
from deeplfm.terms.table import DeepTable, Smooth, Table
from deeplfm.terms.warped_time import WarpedTime

__all__ = [
    "NAMED_MODELS",
    "TERMS",
    "BroadBand",
    "BuildContext",
    "Composition",
    "Covariates",
    "Deep",
    "DeepTable",
    "Dlfm",
    "LocalLevel",
    "MeanReversion",
    "NamedModel",
    "OtherOutputs",
    "Paper",
    "Reference",
    "Season",
    "SharedForces",
    "SharedSeason",
    "Sinusoids",
    "Smooth",
    "Sum",
    "Table",
    "Term",
    "Trend",
    "WarpedTime",
    "from_json",
    "parse",
    "to_json",
]
