"""Training: rows, schedules, the loop, progress and interruption."""

from deeplfm.training.loop import train
from deeplfm.training.rows import Rows, RowSource, StoredRows, condition, statistics
from deeplfm.training.schedule import ROLES, History, Phase, Schedule

__all__ = [
    "ROLES",
    "History",
    "Phase",
    "RowSource",
    "Rows",
    "Schedule",
    "StoredRows",
    "condition",
    "statistics",
    "train",
]
