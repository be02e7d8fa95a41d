"""Work that a time limit cannot interrupt is kept short."""

import pytest
import torch

from deeplfm.selection import fitting
from deeplfm.terms import BuildContext
from deeplfm.terms.candidates import SERIES
from deeplfm.training import Rows
from deeplfm.training.interruption import within


def test_once_time_is_over_a_slow_calibration_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 outputs, each of eight temperatures took three seconds after a limit of five."""
    x = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
    rows = Rows(x, torch.sin(9 * x))
    model = SERIES["sinusoids"].build(rows, BuildContext(dtype=torch.float64))
    solved, plain = [], type(model).solve
    monkeypatch.setattr(type(model), "solve", lambda *given: solved.append(1) or plain(*given))
    monkeypatch.setattr(fitting, "_MOST_OVERTIME", -1.0)
    with within(-1):
        fitting.calibrate(model, rows, rows)
    assert len(solved) == 2
    fitting.calibrate(model, rows, rows)
    assert len(solved) == 2 + len(fitting.TEMPERATURES) + 1
