"""Training: schedules, the loop, progress, and what to say when it fails."""

from deeplfm.training.loop import History, Rows, train
from deeplfm.training.schedule import PUBLIC_CODE_PHASES, ROLES, Phase, Schedule

__all__ = ["PUBLIC_CODE_PHASES", "ROLES", "History", "Phase", "Rows", "Schedule", "train"]
