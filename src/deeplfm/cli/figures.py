"""``deeplfm plot``: figures of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deeplfm.cli.curves import chosen_times
from deeplfm.cli.inputs import load_forecaster, pit_values, read_like
from deeplfm.cli.options import (
    Covariates,
    FileOptions,
    Fitted,
    Points,
    RunOptions,
    Since,
    Until,
    option,
)
from deeplfm.cli.outputs import FIGURES, check_file, written_together
from deeplfm.cli.terminal import Terminal
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster

EXAMPLES = (
    "deeplfm plot vitals-model forecast --horizon 200 -o forecast.png",
    "deeplfm plot vitals-model spectrum -o spectrum.svg",
    "deeplfm plot vitals-model calibration --data later.csv -o calibration.png",
)


Kind = Literal[
    "forecast", "components", "forces", "layers", "learning", "calibration", "spectrum", "filters"
]


@dataclass(frozen=True)
class View:
    """Options of a figure, and the figures that take each of them."""

    horizon: Annotated[int | None, option(None, "STEPS", "Steps of a forecast.", min=1)] = None
    data: Annotated[
        str | None, option(None, "FILE", "Later rows, for a forecast or its calibration.")
    ] = None
    covariates: Covariates = None
    since: Since = None
    until: Until = None
    points: Points = None

    def check(self, kind: Kind) -> None:
        """Raise an error for an option that this figure does not take."""
        for name in self.__dataclass_fields__:
            if getattr(self, name) is not None and name not in _TAKES.get(kind, ()):
                option = "from" if name == "since" else name
                raise InputError(f"--{option}: not an option of a {kind} figure. Leave it out.")


_TAKES = {
    "forecast": ("horizon", "data", "covariates", "since"),
    "components": ("horizon", "covariates", "since"),
    "forces": ("since", "until", "points"),
    "layers": ("since", "until", "points"),
    "calibration": ("data",),
}


def plot(
    model: Fitted,
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="What to draw.", show_default=False)],
    out: Annotated[
        Path, option(None, "FIGURE", "File of the figure: .png, .pdf or .svg.", "--out", "-o")
    ],
    *,
    view: View,
    file: FileOptions,
    run: RunOptions,
) -> None:
    """Draw a figure of a model: its forecast, components, forces, hidden layers, calibration, ...

    Calibration is that of later rows (--data), or else of the training data, which is optimistic.
    """
    check_file(out, "--out", FIGURES)
    view.check(kind)
    forecaster = load_forecaster(model)
    with written_together() as add:
        add(out, lambda path: _BUILDERS[kind](forecaster, view, file).savefig(path))
    terminal = Terminal(run)
    terminal.print(f"Figure: {out}")
    terminal.print_json({"model": model, "kind": kind, "files": {"plot": out}})


def _forecast(forecaster: DeepLFMForecaster, view: View, file: FileOptions) -> Figure:
    def read(source: str | None, columns: list[Any] | None = None) -> pd.DataFrame | None:
        return source and read_like(forecaster, source, file, columns)

    return forecaster.plot(
        view.horizon,
        later=read(view.data),
        covariates=read(view.covariates, forecaster.covariates_),
        since=view.since,
    )


def _components(forecaster: DeepLFMForecaster, view: View, file: FileOptions) -> Figure:
    future = None
    if view.covariates is not None:
        future = read_like(forecaster, view.covariates, file, forecaster.covariates_)
    return forecaster.plot_components(view.horizon, covariates=future, since=view.since)


def _calibration(forecaster: DeepLFMForecaster, view: View, file: FileOptions) -> Figure:
    from deeplfm.plots import calibration_figure

    later = None if view.data is None else read_like(forecaster, view.data, file)
    title = "Training data" if later is None else "Later rows"
    return calibration_figure(pit_values(forecaster, later), title=title)


def _forces(forecaster: DeepLFMForecaster, view: View, _: FileOptions) -> Figure:
    from deeplfm.plots import forces_figure

    times = chosen_times(forecaster, view.since, view.until, view.points)
    return forces_figure(times, forecaster.forces(times), time_label=forecaster.timeline_.label)


def _layers(forecaster: DeepLFMForecaster, view: View, _: FileOptions) -> Figure:
    from deeplfm.plots import hidden_figure

    times = chosen_times(forecaster, view.since, view.until, view.points)
    if not (curves := forecaster.hidden_layers(times)):
        raise _nothing_to_draw("layers", "has no hidden layers")
    return hidden_figure(times, curves, time_label=forecaster.timeline_.label)


def _learning(forecaster: DeepLFMForecaster, *_: Any) -> Figure:
    from deeplfm.plots import learning_figure

    history = forecaster.regressor_.history_
    if history.empty:
        raise _nothing_to_draw("learning", "was not trained")
    return learning_figure(history)


def _spectrum(forecaster: DeepLFMForecaster, *_: Any) -> Figure:
    import numpy as np

    from deeplfm.plots import spectrum_figure

    spectra = forecaster.regressor_.spectrum()
    if not spectra:
        raise _nothing_to_draw("spectrum", "has no frequencies of time")
    names = [str(name) for name in forecaster.targets_]
    data = forecaster.training_[forecaster.targets_].set_axis(names, axis=1)
    data = data.set_axis(forecaster.timeline_.numbers(data.index))
    is_log = forecaster.regressor_.scaling_.is_log
    data.loc[:, is_log] = np.log(data.loc[:, is_log])  # the spectrum is that of the logarithm
    return spectrum_figure(spectra, data, time_unit=_time_unit(forecaster))


def _filters(forecaster: DeepLFMForecaster, *_: Any) -> Figure:
    from deeplfm.plots import filters_figure

    spectra = forecaster.regressor_.filters()
    if not spectra:
        raise _nothing_to_draw("filters", "has no differential equations in time")
    return filters_figure(spectra, time_unit=_time_unit(forecaster))


_BUILDERS: dict[Kind, Callable[[DeepLFMForecaster, View, FileOptions], Figure]] = {
    "forecast": _forecast,
    "components": _components,
    "forces": _forces,
    "layers": _layers,
    "learning": _learning,
    "calibration": _calibration,
    "spectrum": _spectrum,
    "filters": _filters,
}


def _time_unit(forecaster: DeepLFMForecaster) -> str:
    return forecaster.timeline_.unit or f"unit of {forecaster.timeline_.label}"


def _nothing_to_draw(kind: str, reason: str) -> InputError:
    return InputError(f"{kind}: this model {reason}. Choose another figure.")
