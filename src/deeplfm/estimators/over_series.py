"""A forecaster of many series: its methods give one table in long form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

import pandas as pd
from sklearn.base import clone

from deeplfm.errors import ConfigError, InputError, NoPanelError
from deeplfm.estimators.columns import as_frame
from deeplfm.estimators.panel import Panel
from deeplfm.estimators.panel_columns import PanelColumns
from deeplfm.estimators.saving import _parameters, restored_parameters
from deeplfm.estimators.settings import DeepLFMSettings
from deeplfm.io.archive import reading
from deeplfm.io.parts import NAME
from deeplfm.io.storage import PARTS, write_folder
from deeplfm.selection.backends import on_backend
from deeplfm.statespace import Prior

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster

NAMES = ("unique_id", "item_id")  # of the column of series: the conventions of Nixtla and GluonTS
P = ParamSpec("P")
T = TypeVar("T")


def over_series(method: Callable[P, T]) -> Callable[P, T]:
    """A method of one series that is called for each series of a panel.

    Its table is then in long form, and each series gets its own rows of the frames among its arguments.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        self = cast(Any, args[0])
        if self.panel_ is None:
            return method(*args, **kwargs)
        bound = signature.bind(*args, **kwargs).arguments
        arguments = {
            name: long_frame(value, name) if _is_frame(value) else value
            for name, value in bound.items()
            if name != "self"
        }
        fallback = arguments.pop("fallback", False)
        with on_backend(self.backend):
            found = self.panel_.call(self, method.__name__, arguments, fallback)
        return cast(T, self if found is None else found)

    return called


def series_column(frame: pd.DataFrame, series: str | None) -> str | None:
    """The column that names the series: as given, or by its usual name; ``None`` for one series."""
    if series is not None:
        return series
    return next((name for name in NAMES if name in frame.columns), None)


def long_frame(data: Any, where: str) -> pd.DataFrame:
    """A frame; the outer level of an index of series and times becomes a column."""
    if isinstance(data, pd.DataFrame) and isinstance(data.index, pd.MultiIndex):
        if data.index.nlevels == 2:
            names = [
                name or default
                for name, default in zip(data.index.names, (NAMES[0], "ds"), strict=True)
            ]
            data = data.rename_axis(names).reset_index()
    return as_frame(data, where)


def _is_frame(value: Any) -> bool:
    """Whether an argument is a frame of rows, of any library."""
    return isinstance(value, pd.DataFrame) or hasattr(value, "__arrow_c_stream__")


class OverSeries(DeepLFMSettings):
    """Fits and parts of a forecaster of many series."""

    panel_: Panel | None = None  # where the frame holds several series

    @property
    def series_(self) -> pd.DataFrame:
        """Outcome of each series of a panel: rows, status, reason, seconds; by its name.

        The reason is that of a failure, or the first warning of a fit.
        """
        return self._panel.table.drop(columns=["part", "number"])

    @property
    def prior_(self) -> dict[str, Prior] | None:
        """Prior of the parameters that the series of a panel share; ``None`` if they share none.

        With static features it is that of a series with average ones.
        """
        shared = self._panel.shared
        return None if shared is None else shared.of()[0]

    def __getitem__(self, series: Any) -> DeepLFMForecaster:
        """The forecaster of one series of a panel."""
        return self._panel.one(cast("type[DeepLFMForecaster]", type(self)), series)

    def __len__(self) -> int:
        return 1 if self.panel_ is None else len(self.panel_)

    def forecast_new(
        self, frame: Any, horizon: int | None = None, *, static: Any = None, **options: Any
    ) -> pd.DataFrame:
        """Forecasts of series that are not in the panel, which stays as it is; they are not kept.

        A panel whose series share a prior forecasts them without a fit: draws from the prior are weighed
        by the rows, and levels, trends and seasons conditioned on them. Another one fits each of them.

        Args:
            frame: their rows in long form, with the columns of the panel.
            horizon: as in :meth:`forecast`, with all other arguments.
            static: their features, if the panel was fitted with features.
            **options: of :meth:`forecast`.
        """
        panel, roles = self._panel, self._panel.columns
        model = clone(cast("DeepLFMForecaster", self))
        model.set_params(checkpoint=None)
        if panel.shared:
            model.set_params(n_steps=0)
        roles_of_columns = (roles.time, roles.targets, roles.covariates or None)
        model._fit_panel(frame, roles.series, roles_of_columns, {}, False, static, like=panel)
        return model.forecast(horizon, **options)

    def _settings(self) -> dict[str, Any]:
        """Parameters of the regressor."""
        if self.is_series is False:
            raise ConfigError(
                "is_series: False found, but a forecaster learns series. Use DeepLFMRegressor for tables."
            )
        return self.get_params() | {"is_series": True}

    @property
    def _panel(self) -> Panel:
        if self.panel_ is None:
            raise NoPanelError(
                "series: this forecaster was not fitted to a panel. Fit it to a frame in long form, with "
                "series= the column that names the series."
            )
        return self.panel_

    def _fit_panel(
        self,
        data: Any,
        series: str | None,
        roles: tuple[Any, Any, Any],
        options: dict[str, Any],
        is_pooled: bool,
        static: Any = None,
        measurement_error: Any = None,
        like: Panel | None = None,
    ) -> bool:
        """Fit a panel, if the data are one."""
        frame = long_frame(data, "frame")
        column = series_column(frame, series)
        self.panel_ = None
        if column is None and (is_pooled or static is not None):
            raise InputError(
                f"{'static' if static is not None else 'pooled'}: the frame holds one series. Name the "
                "column of many with series=, or leave it out."
            )
        if column is None:
            return False
        if measurement_error is not None:
            raise InputError(
                f"measurement_error: {measurement_error!r} found, and the frame holds several series, "
                f"named by {column!r}. Fit one series, or leave it out."
            )
        self._settings()
        columns = PanelColumns.choose(frame, column, *roles)
        with on_backend(self.backend):
            features = None if static is None else long_frame(static, "static")
            panel = Panel.fit(
                cast("DeepLFMForecaster", self), frame, columns, options, is_pooled, features, like
            )
        if not (panel.table["status"] == "fitted").any():
            first = panel.table.iloc[0]
            raise InputError(
                f"frame: none of {len(panel)} series could be fitted (first: {panel.table.index[0]!r}: "
                f"{first['reason']})."
            )
        for name in [name for name in vars(self) if name.endswith("_") and name != "panel_"]:
            delattr(self, name)  # of an earlier fit to one series
        self.panel_ = panel
        return True

    def _save_panel(self, path: str | Path) -> None:
        """Write the panel to a folder, from which series are read one by one."""
        panel = self._panel
        description = {
            "estimator": type(self).__name__,
            "parameters": _parameters(self),
            "panel": panel.described(),
        }
        write_folder(path, description, {}, panel.parts)
        folder = Path(path).resolve()
        if any(isinstance(part, Path) and folder in part.resolve().parents for part in panel.parts):
            panel.parts = cast(Any, self).load(path)._panel.parts  # the old files are gone

    @classmethod
    def _restore_panel(cls, description: dict[str, Any], path: str | Path) -> Self:
        with reading(path, cls):
            model = cls(**restored_parameters(description["parameters"]))
            named = description[PARTS]
            folder = Path(path).resolve() / Path(named["folder"]).name
            if not all(map(NAME.fullmatch, (*named["files"],))) or "\0" in folder.name:
                raise ValueError(f"its parts are {named!r:.80}")
            parts: list[bytes | Path] = [folder / name for name in named["files"]]
            model.panel_ = Panel.restored(description["panel"], parts)
        return model
