"""``deeplfm plot``: figures of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli.inside import Points, Since, Until, chosen_times
from deeplfm.cli.models import load_forecaster, positions, read_like, unseen
from deeplfm.cli.options import Covariates, Model, Reading, Running
from deeplfm.cli.paths import FIGURES, Outputs, output_file
from deeplfm.cli.terminal import Terminal
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.inspection.forces import Curve

EXAMPLES = (
    "deeplfm plot vitals-model forecast --horizon 200 -o forecast.png",
    "deeplfm plot vitals-model spectrum -o spectrum.svg",
    "deeplfm plot vitals-model calibration --data later.csv -o calibration.png",
)


class Kind(StrEnum):
    """Figures of a model."""

    FORECAST = "forecast"
    FORCES = "forces"
    LAYERS = "layers"
    LEARNING = "learning"
    CALIBRATION = "calibration"
    SPECTRUM = "spectrum"
    FILTERS = "filters"


def plot(
    model: Model,
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help=f"One of {', '.join(Kind)}.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FIGURE", help="Where: .png, .pdf or .svg.")
    ],
    *,
    horizon: Annotated[
        int | None, typer.Option(min=1, metavar="STEPS", help="Of a forecast.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Later rows, for a forecast or its calibration."),
    ] = None,
    covariates: Covariates = None,
    since: Since = None,
    until: Until = None,
    points: Points = None,
    reading: Reading,
    running: Running,
) -> None:
    """Draw a model: its forecast, forces, hidden layers, training, calibration, waves or filters.

    Calibration is that of later rows (--data), or else of the rows it was fitted to, which flatters.
    """
    output_file(out, "--out", FIGURES)
    view = View(horizon, data, covariates, since, until, points, reading)
    view.check(kind)
    forecaster = load_forecaster(model)
    with Outputs() as outputs:
        outputs.add(out, lambda path: _BUILDERS[kind](forecaster, view).savefig(path))
    terminal = Terminal(running)
    terminal.say(f"Figure: {out}")
    terminal.answer({"model": model, "kind": kind, "files": {"plot": out}})


@dataclass(frozen=True)
class View:
    """What a user wants to see of a figure."""

    horizon: int | None
    data: str | None
    covariates: str | None
    since: str | None
    until: str | None
    points: int | None
    reading: Reading

    def check(self, kind: Kind) -> None:
        """Refuse what a kind of figure does not know."""
        options = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("horizon", "data", "covariates", "since", "until", "points"):
            if options[name] is not None and name not in _USES.get(kind, ()):
                option = "from" if name == "since" else name
                raise InputError(
                    f"--{option}: a figure of {kind} has no such option. Leave it out."
                )


_USES = {
    Kind.FORECAST: ("horizon", "data", "covariates", "since"),
    Kind.FORCES: ("since", "until", "points"),
    Kind.LAYERS: ("since", "until", "points"),
    Kind.CALIBRATION: ("data",),
}


def _forecast(forecaster: DeepLFMForecaster, view: View) -> Figure:
    def read(source: str | None, columns: list[Any] | None = None) -> pd.DataFrame | None:
        return source and read_like(forecaster, source, view.reading, columns)

    return forecaster.plot(
        view.horizon,
        later=read(view.data),
        covariates=read(view.covariates, forecaster.covariates_),
        since=view.since,
    )


def _calibration(forecaster: DeepLFMForecaster, view: View) -> Figure:
    from deeplfm.plots import calibration_figure

    if view.data is None:
        seen = forecaster.training_[forecaster.targets_]
        return calibration_figure(positions(forecaster, seen), title="Rows it was fitted to")
    later = read_like(forecaster, view.data, view.reading)
    found = positions(
        forecaster, unseen(forecaster, later), later if forecaster.covariates_ else None
    )
    return calibration_figure(found, title="Rows it had not seen")


def _forces(forecaster: DeepLFMForecaster, view: View) -> Figure:
    from deeplfm.plots import forces_figure

    times, curves = _curves(forecaster, view, forecaster.forces)
    return forces_figure(times, curves, time_label=_time(forecaster))


def _layers(forecaster: DeepLFMForecaster, view: View) -> Figure:
    from deeplfm.plots import hidden_figure

    times, curves = _curves(forecaster, view, forecaster.hidden_layers)
    if not curves:
        raise _nothing("layers", "has no hidden layers")
    return hidden_figure(times, curves, time_label=_time(forecaster))


def _learning(forecaster: DeepLFMForecaster, _: View) -> Figure:
    from deeplfm.plots import learning_figure

    history = forecaster.regressor_.history_
    if history.empty:
        raise _nothing("learning", "was not trained")
    return learning_figure(history)


def _spectrum(forecaster: DeepLFMForecaster, _: View) -> Figure:
    import numpy as np

    from deeplfm.plots import spectrum_figure

    spectra = forecaster.regressor_.spectrum()
    if not spectra:
        raise _nothing("spectrum", "has no waves of time")
    names = [str(name) for name in forecaster.targets_]
    data = forecaster.training_[forecaster.targets_].set_axis(names, axis=1)
    data = data.set_axis(forecaster.timeline_.numbers(data.index))
    is_log = forecaster.regressor_.scaling_.is_log
    data.loc[:, is_log] = np.log(data.loc[:, is_log])  # of which the waves are
    return spectrum_figure(spectra, data, time_unit=_unit(forecaster))


def _filters(forecaster: DeepLFMForecaster, _: View) -> Figure:
    from deeplfm.plots import filters_figure

    spectra = forecaster.regressor_.filters()
    if not spectra:
        raise _nothing("filters", "has no differential equations in time")
    return filters_figure(spectra, time_unit=_unit(forecaster))


_BUILDERS: dict[Kind, Callable[[DeepLFMForecaster, View], Figure]] = {
    Kind.FORECAST: _forecast,
    Kind.FORCES: _forces,
    Kind.LAYERS: _layers,
    Kind.LEARNING: _learning,
    Kind.CALIBRATION: _calibration,
    Kind.SPECTRUM: _spectrum,
    Kind.FILTERS: _filters,
}


def _curves(
    forecaster: DeepLFMForecaster, view: View, question: Callable[[Any], list[Curve]]
) -> tuple[pd.Index, list[Curve]]:
    times = chosen_times(forecaster, view.since, view.until, view.points)
    return times, question(times)


def _time(forecaster: DeepLFMForecaster) -> str:
    return str(forecaster.timeline_.name or "time")


def _unit(forecaster: DeepLFMForecaster) -> str:
    """The unit of the model's time, where the user's times have one."""
    return forecaster.timeline_.unit or f"unit of {_time(forecaster)}"


def _nothing(kind: str, reason: str) -> InputError:
    return InputError(f"{kind}: this model {reason}, so there is nothing to draw. Choose another.")
