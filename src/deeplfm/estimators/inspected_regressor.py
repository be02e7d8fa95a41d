"""Components, forces, spectra and figures of a fitted regressor, in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from deeplfm.errors import ConfigError
from deeplfm.estimators.arrays import check_targets
from deeplfm.estimators.predicting import Predicting
from deeplfm.inspection import depth, forces, spectra
from deeplfm.inspection.components import components
from deeplfm.inspection.fitted import FittedModel
from deeplfm.inspection.forces import Curve
from deeplfm.inspection.spectra import Equation, Spectrum
from deeplfm.selection.record import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from deeplfm.estimators.regressor import DeepLFMRegressor


class Inspected(Predicting):
    """Parts of a fitted model: components, forces, hidden layers, equations and spectra."""

    fit_result_: Selection
    is_series_: bool

    def _html_repr(self) -> str:
        """A summary for notebooks."""
        from deeplfm.estimators.notebook import regressor_html

        return regressor_html(cast("DeepLFMRegressor", self))

    def components(self, X: Any, coverage: float = 0.95) -> pd.DataFrame:
        """Terms of the model as functions, which add up to the prediction.

        The mean of the targets is included in the component "trend"; without a trend in "level", and
        without a level it is a component "mean" of its own. All other components vary around 0. Members
        of the average that are no sum of terms, such as an autoregression, are one component each. A term
        that only some members have is 0 in the others, and its band includes this difference.

        Components of a target that is modelled by its logarithm are factors around 1, and multiply to the
        prediction.

        Args:
            X: rows.
            coverage: probability that the function lies between ``low`` and ``high``.

        Returns:
            Columns of three levels: target, component, and "mean", "low" or "high". Rows are indexed as X
            is; by time, where X is an array of times.

        >>> import numpy as np
        >>> from deeplfm import DeepLFMRegressor
        >>> t = np.linspace(0, 6, 90)
        >>> model = DeepLFMRegressor(model="sinusoids + broadband", n_steps=5).fit(t, 7 + np.sin(3 * t))
        >>> parts = model.components(t)["y"]
        >>> bool(np.allclose(parts.xs("mean", axis=1, level=1).sum(axis=1), model.predict(t)))
        True
        """
        inputs = self._inputs(X)
        found = components(self._fitted(), self._tensor(inputs), coverage)
        is_array = not isinstance(X, pd.DataFrame | pd.Series)
        index = pd.Index(inputs[:, 0]) if is_array and self.is_series_ else pd.DataFrame(X).index
        return pd.DataFrame(
            {
                (target, name, value): getattr(component, value)[:, d].numpy()
                for d, target in enumerate(self.labels_.texts)
                for name, component in found.items()
                for value in component._fields
            },
            index=index,
        ).rename_axis(columns=["target", "component", "value"])

    def forces(self, X: Any) -> list[Curve]:
        """Posterior of the latent forces at some times.

        A force enters a linear differential equation in time, such as f' + γf = Σ_q S_q u_q. It is in
        units of the output (of its logarithm, where that is modelled) over units of time to the order of
        the equation: one curve for each output and term of the member of largest weight. Outputs that
        share their forces (``model="lfm"``) have one curve for each force, in units of its own standard
        deviation.
        """
        curves = forces.forces(self._fitted(), self._tensor(self._inputs(X)))
        if not curves:
            raise ConfigError(
                "forces: no layer of this model is a differential equation in time. Fit a series with "
                "terms that are one, such as Deep(system='ode1')."
            )
        return curves

    def hidden_layers(self, X: Any) -> list[Curve]:
        """Units of every hidden layer, as functions of the inputs.

        Of a clock, the instantaneous rate in cycles per unit of time, at times of the record.
        """
        return forces.hidden_layers(self._fitted(), self._tensor(self._inputs(X)))

    def hidden_share(self, X: Any) -> pd.Series:
        """Share of the variance of the prediction that passes through hidden layers, for each target.

        0 for a model without hidden layers, or whose hidden layers carry nothing; 1 where all that
        varies does so through them.

        Args:
            X: rows, at least two.
        """
        shares = depth.hidden_share(self._fitted(), self._tensor(self._inputs(X)))
        return pd.Series(shares.numpy(), index=self.labels_.texts, name="hidden_share")

    def equations(self) -> list[Equation]:
        """Differential equations in time that were learned: coefficients and time constants."""
        return spectra.equations(self._fitted())

    def filters(self) -> list[Spectrum]:
        """Gain of each differential equation in time, by frequency."""
        return spectra.filters(self._fitted())

    def spectrum(self) -> list[Spectrum]:
        """Power of the sinusoids of each output, by frequency."""
        return spectra.spectrum(self._fitted())

    @property
    def history_(self) -> pd.DataFrame:
        """Loss of every training step of each model."""
        check_is_fitted(self)
        return pd.DataFrame(
            [
                (name, step, loss)
                for name, history in self.fit_result_.histories.items()
                for step, loss in enumerate(history.loss, 1)
            ],
            columns=["candidate", "step", "loss"],
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

    def _fitted(self) -> FittedModel:
        check_is_fitted(self)
        return FittedModel(
            self.model_,
            self.fit_result_.members,
            self.labels_.texts,
            float(self.scaling_.x_scale[0]),
            self.scaling_.y_scale,
            self.scaling_.y_shift,
            self.scaling_.is_log,
        )
