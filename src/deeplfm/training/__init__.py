"""Training: rows, schedules, the loop, progress and interruption."""

from deeplfm.training.loop import History, condition, set_train_data, statistics, train
from deeplfm.training.rows import Rows, RowSource, StoredRows
from deeplfm.training.schedule import ROLES, Phase, Schedule

__all__ = [
    "ROLES",
    "History",
    "Phase",
    "RowSource",
    "Rows",
    "Schedule",
    "StoredRows",
    "condition",
    "set_train_data",
    "statistics",
    "train",
]
