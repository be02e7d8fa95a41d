"""The forecaster with the API of sktime: horizons, pipelines, tuning and backtests.

Needs the extra ``sktime``: ``pip install "deeplfm[sktime]"``.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import pandas as pd
from sktime.forecasting.base import BaseForecaster

from deeplfm.errors import ConfigError, InputError
from deeplfm.estimators.forecaster import DeepLFMForecaster
from deeplfm.estimators.settings import DeepLFMSettings, with_parameters

_SIGNATURE = inspect.signature(DeepLFMSettings.__init__)
_PARAMETERS = {
    name: parameter
    for name, parameter in _SIGNATURE.parameters.items()
    if name not in ("self", "is_series")
}


@with_parameters
class SktimeForecaster(BaseForecaster):
    """Deep latent force model as a forecaster of sktime.

    One or several series, with gaps, with exogenous variables; point forecasts, intervals, quantiles,
    variances and, with skpro, distributions. ``update`` adds rows without training. The parameters are
    those of :class:`~deeplfm.DeepLFMForecaster`, without ``is_series``.

    Attributes:
        forecaster_: the fitted :class:`~deeplfm.DeepLFMForecaster`, whose targets and covariates are
            numbered.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from deeplfm.estimators.sktime import SktimeForecaster
    >>> months = pd.period_range("2020-01", periods=48, freq="M")
    >>> y = pd.Series(50 + 9 * np.sin(np.arange(48) * 2 * np.pi / 12), index=months)
    >>> model = SktimeForecaster(model="trend + season(12)", n_steps=3).fit(y)
    >>> forecast = model.predict(fh=[1, 2, 3])
    >>> str(forecast.index[0]), model.predict_interval(fh=[1], coverage=0.9).shape
    ('2024-01', (1, 2))
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["The deeplfm developers"],
        "maintainers": ["The deeplfm developers"],
        "python_dependencies": "deeplfm",
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:missing_values": True,
        "capability:update": True,
        "capability:categorical_in_X": False,
        "requires-fh-in-fit": False,
        "capability:random_state": True,
        "property:randomness": "derandomized",
    }

    def __init__(self, **settings: Any) -> None:
        unknown = [name for name in settings if name not in _PARAMETERS]
        if unknown:
            raise TypeError(
                f"SktimeForecaster: {unknown[0]!r} is no parameter of DeepLFMForecaster."
            )
        for name, parameter in _PARAMETERS.items():
            setattr(self, name, settings.get(name, parameter.default))
        super().__init__()

    __init__.__signature__ = _SIGNATURE.replace(  # type: ignore[attr-defined]
        parameters=[_SIGNATURE.parameters["self"], *_PARAMETERS.values()]
    )

    def _fit(self, y: pd.DataFrame, X: pd.DataFrame | None, fh: Any) -> SktimeForecaster:
        self._names = list(y.columns)
        return self._fit_frame(self._frame(y, X))

    def _fit_frame(self, frame: pd.DataFrame) -> SktimeForecaster:
        targets = [name for name in frame.columns if name.startswith("y")]
        covariates = [name for name in frame.columns if name.startswith("x")]
        settings = {name: getattr(self, name) for name in _PARAMETERS}
        self.forecaster_ = DeepLFMForecaster(**settings).fit(
            frame, targets=targets, covariates=covariates
        )
        return self

    def _update(
        self, y: pd.DataFrame, X: pd.DataFrame | None = None, update_params: bool = True
    ) -> SktimeForecaster:
        if not update_params:
            return self
        known = self.forecaster_.training_
        known = known.set_axis(self.forecaster_.timeline_.shown(known.index), axis=0)
        is_new = ~y.index.isin(known.index)
        if not is_new.any():
            return self
        rows = self._frame(y, X)[is_new]
        try:
            self.forecaster_.update(rows)
        except (ConfigError, InputError):  # no exact output layer, or nothing known in the new rows
            return self._fit_frame(pd.concat([known, rows]))
        return self

    def _predict(self, fh: Any, X: pd.DataFrame | None) -> pd.DataFrame:
        index = fh.to_absolute_index(self.cutoff)
        found = self._forecast(index, X, quantiles=[0.5])
        values = found[self.forecaster_.targets_].to_numpy()
        return pd.DataFrame(values, index=index, columns=self._names)

    def _predict_quantiles(
        self, fh: Any, X: pd.DataFrame | None, alpha: list[float]
    ) -> pd.DataFrame:
        index = fh.to_absolute_index(self.cutoff)
        found = self._forecast(index, X, quantiles=list(alpha))
        columns = [f"{name}_q{level:g}" for name in self.forecaster_.targets_ for level in alpha]
        names = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(found[columns].to_numpy(), index=index, columns=names)

    def _predict_var(
        self, fh: Any, X: pd.DataFrame | None = None, cov: bool = False
    ) -> pd.DataFrame:
        index = fh.to_absolute_index(self.cutoff)
        found = self._forecast(index, X, quantiles=[0.5])
        columns = [f"{name}_std" for name in self.forecaster_.targets_]
        values = found[columns].to_numpy() ** 2
        return pd.DataFrame(values, index=index, columns=self._get_varnames())

    def _forecast(
        self, index: pd.Index, X: pd.DataFrame | None, quantiles: list[float]
    ) -> pd.DataFrame:
        known = None if X is None or not self.forecaster_.covariates_ else _numbered(X, "x")
        return self.forecaster_.forecast(times=index, covariates=known, quantiles=quantiles)

    @staticmethod
    def _frame(y: pd.DataFrame, X: pd.DataFrame | None) -> pd.DataFrame:
        """Targets and covariates side by side, by names that cannot collide."""
        parts = [_numbered(y, "y")]
        if X is not None:
            parts.append(_numbered(X, "x").reindex(y.index))
        return pd.concat(parts, axis=1).rename_axis(None)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters with which sktime tests the class quickly."""
        return [{"model": "trend", "n_steps": 1}, {"model": "trend + level", "n_steps": 2}]


def _numbered(frame: pd.DataFrame, letter: str) -> pd.DataFrame:
    names = [f"{letter}{i}" for i in range(frame.shape[1])]
    return frame.set_axis(names, axis=1).rename_axis(None)
