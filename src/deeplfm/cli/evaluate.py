"""``deeplfm evaluate``: a model beside what came true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deeplfm.cli.models import load_forecaster, positions, read_like, unseen
from deeplfm.cli.options import Data, Model, Reading, Running
from deeplfm.cli.results import Plot, Report, Results
from deeplfm.cli.summary import SCORES_IN_WORDS, score_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = (
    "deeplfm evaluate vitals-model later.csv",
    "deeplfm evaluate vitals-model later.csv --plot calibration.png --report later.html",
    "deeplfm evaluate vitals-model later.csv --json",
)


def evaluate(
    model: Model,
    data: Data,
    *,
    plot: Plot = None,
    report: Report = None,
    reading: Reading,
    running: Running,
) -> None:
    """Score a model on rows that it has not seen: accuracy, density and honesty of its intervals.

    Values that were known in training are left out, with a warning. The figure shows how well the
    predicted distributions agree with what came true.
    """
    results = Results(running, None, plot, report)
    forecaster = load_forecaster(model)
    later = read_like(forecaster, data, reading)
    scores = forecaster.evaluate(later)

    def draw() -> Figure:
        from deeplfm.plots import calibration_figure

        covariates = later if forecaster.covariates_ else None
        return calibration_figure(positions(forecaster, unseen(forecaster, later), covariates))

    def write_page(path: Path) -> None:
        from deeplfm.report import write_report

        write_report(path, forecaster, evaluation=later)

    results.write(scores, draw, write_page)
    results.terminal().say(score_table(scores), SCORES_IN_WORDS)
    results.say({"model": model, "data": data, "scores": scores.to_dict("index")})
