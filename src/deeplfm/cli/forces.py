"""``deeplfm forces``: what drives the equations of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deeplfm.cli.inside import Points, Since, Until, chosen_times, curve_table
from deeplfm.cli.models import load_forecaster
from deeplfm.cli.options import Model, Running
from deeplfm.cli.results import Plot, Results, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = (
    "deeplfm forces vitals-model -o forces.csv --plot forces.png",
    "deeplfm forces vitals-model --from 2 --until 4 --points 500 -o forces.csv",
)


def forces(
    model: Model,
    *,
    since: Since = None,
    until: Until = None,
    points: Points = None,
    out: Table = None,
    plot: Plot = None,
    running: Running,
) -> None:
    """Recover the latent forces: what drives the differential equations of a model.

    One column for each force and one for its standard deviation. By default at the times of the data;
    --from, --until or --points choose others, evenly spaced.
    """
    results = Results.with_table(running, out, plot)
    forecaster = load_forecaster(model)
    times = chosen_times(forecaster, since, until, points)
    curves = forecaster.forces(times)
    found = curve_table(times, curves)

    def draw() -> Figure:
        from deeplfm.plots import forces_figure

        return forces_figure(times, curves, time_label=str(times.name or "time"))

    results.write(found, draw)
    names = "; ".join(found.columns[::2])
    results.terminal().say(f"Forces at {len(times)} times: {names}")
    results.say({"model": model, "rows": len(found)}, found.reset_index())
