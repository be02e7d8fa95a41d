"""Looking inside a fitted regressor, in the user's units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import check_targets
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.targets import Labels
from deeplfm.inspection.forces import Curve, Inspector, Spectrum
from deeplfm.predictive.mixture import Predictive
from deeplfm.selection.average import ModelAverage
from deeplfm.selection.select import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Inspected(ABC):
    """What can be seen of a fitted model beside its predictions."""

    model_: ModelAverage
    fit_result_: Report
    scaling_: Scaling
    labels_: Labels
    is_series_: bool

    def forces(self, X: Any) -> list[Curve]:
        """Posterior of the latent forces at some times.

        A force is what enters an equation f' + γf = Σ_q S_q u_q whose input is time, in units of the
        output (of its logarithm, where the model hears that) over units of time, with one curve for
        each output and block of the heaviest model of the stack. Outputs that share their forces
        (``start="lfm"``) have one curve for each force, in units of its own standard deviation.
        """
        curves = self._inspector().forces(self._tensor(self._inputs(X)))
        if not curves:
            raise ConfigError(
                "forces: no layer of this model is a differential equation in time. Fit a series with "
                "system='ode1', by a start that is a function of time."
            )
        return curves

    def hidden_layers(self, X: Any) -> list[Curve]:
        """What each hidden layer does to the inputs."""
        return self._inspector().hidden_layers(self._tensor(self._inputs(X)))

    def filters(self) -> list[Spectrum]:
        """What the differential equations whose input is time let through."""
        return self._inspector().filters()

    def spectrum(self) -> list[Spectrum]:
        """Power of the waves of which each output is made."""
        return self._inspector().spectrum()

    @property
    def history_(self) -> pd.DataFrame:
        """Loss of every training step of the models in the stack."""
        check_is_fitted(self)
        return pd.DataFrame(
            [
                (name, step, loss)
                for name, history in self.fit_result_.histories.items()
                for step, loss in enumerate(history.loss, start=1)
            ],
            columns=["start", "step", "loss"],
        )

    def plot(self, X: Any, y: Any = None) -> Figure:
        """A figure of the prediction of a series, with observations where they are given.

        Args:
            X: times, in any order, with covariates where the model has any.
            y: targets at these times; NaN marks a missing one.
        """
        from deeplfm.plots import fans_of, forecast_figure

        inputs = self._inputs(X)
        if not self.is_series_:
            raise ConfigError("plot: the inputs of this model are a table, and it draws over time.")
        order = np.argsort(inputs[:, 0], kind="stable")
        time, names = inputs[order, 0], self.labels_.texts
        seen = None
        if y is not None:
            targets = check_targets(y, len(inputs), fewest_known=0)[order]
            seen = pd.DataFrame(targets.astype(np.float64), index=time, columns=names)
        fans = fans_of(self._posterior(inputs[order]), names)
        return forecast_figure(time, fans, later=seen, later_label="observations")

    @abstractmethod
    def _inputs(self, X: Any) -> NDArray[Any]:
        """Rows of the user's, checked."""

    @abstractmethod
    def _tensor(self, values: NDArray[Any], is_scaled: bool = False) -> torch.Tensor:
        """Rows as the models see them."""

    @abstractmethod
    def _posterior(self, x: NDArray[Any]) -> Predictive:
        """Prediction of checked rows."""

    def _inspector(self) -> Inspector:
        check_is_fitted(self)
        return Inspector(
            self.model_,
            self.fit_result_.names,
            self.labels_.texts,
            float(self.scaling_.x_scale[0]),
            self.scaling_.y_scale,
        )
