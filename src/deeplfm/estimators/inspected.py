"""Components, forces and figures of a fitted forecaster, in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import InputError
from deeplfm.estimators.columns import as_frame
from deeplfm.estimators.forecasting import Forecasting
from deeplfm.estimators.over_series import over_series
from deeplfm.inspection.forces import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from deeplfm.estimators.forecaster import DeepLFMForecaster

_FEWEST_DRAWN, _DRAWN_PER_STEP = 200, 8  # rows that a figure shows before a forecast


class InspectedForecaster(Forecasting):
    """Components, forces and figures of a fitted forecaster."""

    def _html_repr(self) -> str:
        """A summary for notebooks."""
        from deeplfm.estimators.notebook import forecaster_html

        return forecaster_html(cast("DeepLFMForecaster", self))

    @over_series
    def components(
        self,
        horizon: int | None = None,
        until: Any = None,
        times: Any = None,
        covariates: pd.DataFrame | None = None,
        coverage: float = 0.95,
    ) -> pd.DataFrame:
        """Terms of the model over time, which add up to the forecast: trend, season, level, ...

        Components of a target that is modelled by its logarithm are factors, and multiply to the
        forecast. See :meth:`DeepLFMRegressor.components` for the component that includes the mean.

        Args:
            horizon: as in :meth:`forecast`, with ``until``, ``times`` and ``covariates``.
            until: last time.
            times: any times, past or future.
            covariates: a frame of the covariates at all these times.
            coverage: probability that the function lies between ``low`` and ``high``.

        Returns:
            Columns of three levels: target, component, and "mean", "low" or "high"; indexed by time.

        >>> import numpy as np
        >>> import pandas as pd
        >>> from deeplfm import DeepLFMForecaster
        >>> frame = pd.DataFrame({"load": 50 + 9 * np.sin(np.arange(60) * 2 * np.pi / 7)})
        >>> model = DeepLFMForecaster(model="sinusoids + broadband", n_steps=5, random_state=0).fit(frame)
        >>> week = model.components(7)["load"]
        >>> means = week.xs("mean", axis=1, level="value")
        >>> bool(np.allclose(means.sum(axis=1), model.forecast(7)["load"]))
        True
        """
        record = self._record
        index = record.ahead(horizon, until, times, covariates)
        table = self.regressor_.components(record.inputs_at(index, covariates), coverage)
        names = dict(zip(self.regressor_.labels_.texts, self.targets_, strict=True))
        shown = self.timeline_.shown(index)
        return table.set_axis(shown, axis=0).rename(columns=names, level="target")

    def plot(
        self,
        horizon: int | None = None,
        *,
        later: pd.DataFrame | None = None,
        covariates: pd.DataFrame | None = None,
        since: Any = None,
        title: str | None = None,
    ) -> Figure:
        """A figure of the training rows, their filled gaps and the forecast, a panel for each target.

        Args:
            horizon: number of steps to forecast, as in :meth:`forecast`.
            later: observations of the targets to draw beside the forecast.
            covariates: as in :meth:`forecast`.
            since: first time to show. By default the last 200 rows, or eight times the horizon, so that
                the forecast of a long series can be seen.
            title: of the figure.
        """
        index = self._shown(horizon, covariates, since)
        return self._figure(index, covariates, later, title)

    def plot_components(
        self,
        horizon: int | None = None,
        *,
        covariates: pd.DataFrame | None = None,
        since: Any = None,
        coverage: float = 0.95,
        title: str | None = None,
    ) -> Figure:
        """A figure of the components of the training rows and the forecast, a panel for each.

        Args:
            horizon: number of steps to forecast, as in :meth:`forecast`.
            covariates: as in :meth:`forecast`.
            since: first time to show, as in :meth:`plot`.
            coverage: of the bands.
            title: of the figure.
        """
        from deeplfm.plots import components_figure

        index = self._shown(horizon, covariates, since)
        return components_figure(
            self.components(times=index, covariates=covariates, coverage=coverage),
            end=self.training_.index[-1],
            time_label=self.timeline_.label,
            title=title,
        )

    def _figure(
        self,
        index: pd.Index,
        covariates: pd.DataFrame | None,
        later: pd.DataFrame | None = None,
        title: str | None = None,
    ) -> Figure:
        """The figure of some times."""
        from deeplfm.plots import COVERAGES, fans_from, forecast_figure, interval_levels

        record, names = self._record, [str(name) for name in self.targets_]
        known = None if later is None else record.read(as_frame(later, "later"))
        levels = interval_levels(COVERAGES)
        mean, ends = self.regressor_._in_chunks(
            record.inputs_at(index, covariates),
            lambda posterior, _: (posterior.mean, posterior.quantile(levels).movedim(0, -1)),
        )
        return forecast_figure(
            index,
            fans_from(mean.numpy(), ends.movedim(-1, 0).numpy(), names),
            record.observed.set_axis(names, axis=1),
            None if known is None else known[self.targets_].set_axis(names, axis=1),
            time_label=self.timeline_.label,
            since=index[0],
            title=title,
        )

    def forces(self, times: Any = None) -> list[Curve]:
        """Posterior of the latent forces, as :meth:`DeepLFMRegressor.forces`, at any times.

        Args:
            times: by default those of ``training_``; with covariates, some of these.
        """
        return self.regressor_.forces(self._inputs_at(times))

    def hidden_layers(self, times: Any = None) -> list[Curve]:
        """Output of each hidden layer over time; ``times`` as in :meth:`forces`."""
        return self.regressor_.hidden_layers(self._inputs_at(times))

    def _shown(self, horizon: int | None, covariates: pd.DataFrame | None, since: Any) -> pd.Index:
        """Times of the training rows and the forecast that a figure shows."""
        ahead = self._record.ahead(horizon, None, None, covariates)
        if since is None:
            return self._with_rows_before(ahead)
        index, start = self._record.drawn(ahead), self.timeline_.read(since, "since")[0]
        if index[-1] < start:
            raise InputError(f"since: {start} is after all that is shown. Give an earlier time.")
        return index[index >= start]

    def _with_rows_before(self, ahead: pd.Index) -> pd.Index:
        """Times of a forecast and of the rows before it that a figure shows."""
        return self._record.drawn(ahead, max(_FEWEST_DRAWN, _DRAWN_PER_STEP * len(ahead)))

    def _inputs_at(self, times: Any) -> Float64[ndarray, "N P"]:
        record = self._record
        index = record.rows.index if times is None else record.timeline.read(times)
        return record.inputs_at(index, None)
