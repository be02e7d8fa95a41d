"""Training: schedules, the loop, progress, and what to say when it fails."""

from deeplfm.training.loop import History, train
from deeplfm.training.rows import Rows, RowSource, StoredRows
from deeplfm.training.schedule import PUBLIC_CODE_PHASES, ROLES, Phase, Schedule

__all__ = [
    "PUBLIC_CODE_PHASES",
    "ROLES",
    "History",
    "Phase",
    "RowSource",
    "Rows",
    "Schedule",
    "StoredRows",
    "train",
]
