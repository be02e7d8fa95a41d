"""The estimator: scikit-learn's manners around a deep latent force model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from deeplfm import config as configuration
from deeplfm.errors import ConfigError, ModelFileError
from deeplfm.estimators.arrays import Arrays
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.validation import check_inputs, check_settings
from deeplfm.kernels import compiled_kernels
from deeplfm.model import DeepLFM
from deeplfm.predictive import Predictive
from deeplfm.recipes import Architecture, recipes_for
from deeplfm.storage import read_folder, restore, write_folder
from deeplfm.training import History, Rows, RowSource, StoredRows
from deeplfm.training.race import Recipe, Report, fit_recipe, race
from deeplfm.training.stack import Stack

Array = NDArray[np.float64]

PRESETS = ("default", "paper")
_PREDICTION_ROWS = 4096  # held at a time with all their mixture components


class DeepLFMRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Deep latent force model for a series (one input: time) or a table (several inputs).

    Args:
        preset: "default", the best we know: several starts race on held-out rows and are stacked; or
            "paper", the published model letter by letter.
        system: what the layers of the deep path are made of: "ode1" (the paper), "eq" (a deep
            Gaussian process), "arc0", "arc1", "arc2".
        hidden: widths of the hidden layers of the deep path.
        n_forces: number of latent forces of a deep block.
        n_features: number of frequencies per force.
        start: "race", or one start alone: "pursuit", "deep", "spectrum", "composition", "table",
            "paper". ``None`` takes the preset's.
        n_steps: training steps of each fit; ``None`` takes the recipe's own number.
        batch_size: rows in each step; ``None`` takes the recipe's own: 1000 for tables, all rows for
            series. Of these the 20 000 most recent rows are used, or 100 000 in batches.
        time_limit: seconds for each fit of a recipe; what it stopped is in ``report_``, and the same
            seed no longer gives the same bits.
        patience: stop a fit after this many steps without a better objective.
        input_dependent_noise: learn the noise as a function of the input.
        device: where to compute.
        dtype: "float64" or "float32"; ``None`` takes float64 (the paper's preset float32).
        compile: use kernels compiled for this machine: the same numbers to rounding, faster where
            there are many samples. Needs a C++ compiler; without one it warns and goes on.
        random_state: the same integer gives the same bits.
        progress: show a progress bar; ``None`` shows it when standard error is a terminal.

    Attributes:
        stack_: the fitted models and their weights.
        report_: what the race found.
        n_features_in_: number of input columns.

    >>> import numpy as np
    >>> t = np.linspace(0, 6, 90)
    >>> model = DeepLFMRegressor(start="pursuit", n_steps=5, random_state=0).fit(t, np.sin(3 * t))
    >>> mean, std = model.predict(t[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

    def __init__(
        self,
        preset: str = "default",
        system: str = "ode1",
        hidden: tuple[int, ...] = (3,),
        n_forces: int = 1,
        n_features: int = 100,
        start: str | None = None,
        n_steps: int | None = None,
        batch_size: int | None = None,
        time_limit: float | None = None,
        patience: int | None = None,
        input_dependent_noise: bool = False,
        device: str = "cpu",
        dtype: str | None = None,
        compile: bool = False,
        random_state: int = 0,
        progress: bool | None = None,
    ) -> None:
        self.preset = preset
        self.system = system
        self.hidden = hidden
        self.n_forces = n_forces
        self.n_features = n_features
        self.start = start
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.time_limit = time_limit
        self.patience = patience
        self.input_dependent_noise = input_dependent_noise
        self.device = device
        self.dtype = dtype
        self.compile = compile
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to inputs and targets; NaN in y marks a missing target.

        Args:
            X: times (a vector, or one column) or a table of inputs. Memory-mapped arrays stay on disk:
                memory does not grow with their rows.
            y: one or several targets for each row.
            sample_weight: weight of each row's likelihood.
        """
        arrays = Arrays.of(X, y, sample_weight)
        self.n_features_in_ = arrays.x.shape[1]
        self.is_series_ = self.n_features_in_ == 1
        self.is_vector_ = np.ndim(y) == 1
        recipes = self._recipes()
        if self.is_series_:
            arrays = arrays.by_time()
            if self._start() not in ("paper", "table"):  # these know nothing of time
                arrays = arrays.most_recent(in_batches=self.batch_size is not None)
        with compiled_kernels(self.compile):
            self.stack_, self.report_ = self._fit(self._rows(arrays), recipes)
        return self

    def posterior(self, X: Any) -> Predictive:
        """Predictive distribution of each row, in the units of y."""
        check_is_fitted(self)
        return self._posterior(check_inputs(X, self.n_features_in_))

    def predict(
        self, X: Any, return_std: bool = False, latent: bool = False
    ) -> Array | tuple[Array, Array]:
        """Expected values; with ``return_std`` also the standard deviation of an observation.

        Args:
            X: rows.
            return_std: return the standard deviation too.
            latent: leave the observation noise out of it.
        """
        if return_std:
            mean, std = self._ask(X, lambda posterior: (posterior.mean, posterior.std(latent)))
            return mean, std
        (mean,) = self._ask(X, lambda posterior: (posterior.mean,))
        return mean

    def predict_interval(
        self, X: Any, coverage: float = 0.95, latent: bool = False
    ) -> tuple[Array, Array]:
        """Lower and upper end of the central interval that holds an observation."""
        low, high = self._ask(X, lambda posterior: posterior.interval(coverage, latent))
        return low, high

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder."""
        check_is_fitted(self)
        scaling = vars(self.scaling_)
        description = {
            "estimator": type(self).__name__,
            "parameters": self.get_params(),
            "is_series": self.is_series_,
            "is_vector": self.is_vector_,
            "members": [
                {"seed": member.seed, "config": configuration.to_dict(member.config)}
                for member in self.stack_.members
            ],
            "report": asdict(self.report_),
        }
        tensors = {f"scaling.{name}": torch.as_tensor(value) for name, value in scaling.items()}
        tensors |= {f"stack.{name}": value for name, value in self.stack_.state_dict().items()}
        write_folder(path, description, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that :meth:`save` wrote; it predicts the same bits."""
        description, tensors = read_folder(path)
        try:
            estimator = cls(**description["parameters"])
            estimator.hidden = tuple(estimator.hidden)
            scaling = {
                name: tensors.pop(f"scaling.{name}").numpy()
                for name in ("x_shift", "x_scale", "y_shift", "y_scale")
            }
            members = [
                DeepLFM(configuration.from_dict(member["config"]), member["seed"]).to(
                    estimator._architecture().dtype
                )
                for member in description["members"]
            ]
            estimator.is_series_ = description["is_series"]
            estimator.is_vector_ = description["is_vector"]
            report = description["report"]
            histories = {name: History(**kept) for name, kept in report["histories"].items()}
            estimator.report_ = Report(**report | {"histories": histories})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(
                f"load: {path} does not describe a {cls.__name__} ({error!r}). Save the model again."
            ) from error
        estimator.scaling_ = Scaling(**scaling)
        estimator.n_features_in_ = len(scaling["x_shift"])
        n_outputs = len(scaling["y_shift"])
        estimator.stack_ = Stack(members, torch.ones(len(members), n_outputs, dtype=torch.float64))
        restore(
            estimator.stack_,
            {name.removeprefix("stack."): value for name, value in tensors.items()},
        )
        estimator.stack_.to(estimator.device)
        return estimator

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _rows(self, arrays: Arrays) -> RowSource:
        """Learn the scales of the data, and put them in the model's units: now, or as rows are read."""
        scaling = self.scaling_ = Scaling.of_pieces(arrays.pieces(), self.is_series_)
        kind: dict[str, Any] = {"dtype": self._architecture().dtype, "device": self.device}

        def read(index: torch.Tensor) -> Rows:
            x, y, weight = arrays.read(index.cpu().numpy())
            return Rows(
                torch.as_tensor(scaling.inputs(x), **kind),
                torch.as_tensor(scaling.outputs(y), **kind),
                None if weight is None else torch.as_tensor(weight, **kind),
            )

        rows = StoredRows(read, len(arrays))
        return rows if arrays.stay_where_they_are else rows.everything()

    def _fit(self, rows: RowSource, recipes: list[Recipe]) -> tuple[Stack, Report]:
        if self._start() == "paper":  # as it is, without calibration
            (recipe,) = recipes
            model, history = fit_recipe(recipe, rows, self.random_state, self.progress)
            report = Report(names=[recipe.name], histories={recipe.name: history})
            return Stack.of(model), report
        # a single start races alone: the held-out rows calibrate it
        return race(recipes, rows, self.is_series_, self.random_state, self.progress)

    def _recipes(self) -> list[Recipe]:
        """The recipes of the chosen start, with the user's limits."""
        recipes = recipes_for(self._start(), self._architecture(), self.is_series_, self.n_steps)
        limits: dict[str, Any] = {"time_limit": self.time_limit, "patience": self.patience}
        if self.batch_size is not None:
            limits["batch_size"] = self.batch_size
        return [replace(recipe, schedule=replace(recipe.schedule, **limits)) for recipe in recipes]

    def _start(self) -> str:
        if self.preset not in PRESETS:
            raise ConfigError(
                f"preset: {self.preset!r} is not known. Choose one of {', '.join(PRESETS)}."
            )
        return self.start or ("paper" if self.preset == "paper" else "race")

    def _architecture(self) -> Architecture:
        check_settings(self.get_params())
        name = self.dtype or ("float32" if self.preset == "paper" else "float64")
        if name not in ("float32", "float64"):
            raise ConfigError(f"dtype: {name!r} is not known. Choose float32 or float64.")
        return Architecture(
            system=self.system,
            hidden=tuple(self.hidden),
            n_forces=self.n_forces,
            n_features=self.n_features,
            input_dependent_noise=self.input_dependent_noise,
            dtype=getattr(torch, name),
        )

    @torch.no_grad()
    def _posterior(self, x: NDArray[Any]) -> Predictive:
        inputs = torch.as_tensor(
            self.scaling_.inputs(x), dtype=self._architecture().dtype, device=self.device
        )
        with compiled_kernels(self.compile):
            return self.scaling_.predictive(self.stack_.posterior(inputs))

    def _ask(
        self, X: Any, question: Callable[[Predictive], tuple[torch.Tensor, ...]]
    ) -> list[Array]:
        """Answers for all rows, from the distributions of some at a time."""
        check_is_fitted(self)
        x = check_inputs(X, self.n_features_in_)
        chunks = (x[i : i + _PREDICTION_ROWS] for i in range(0, len(x), _PREDICTION_ROWS))
        answers = zip(*(question(self._posterior(chunk)) for chunk in chunks), strict=True)
        return [self._shaped(torch.cat(answer)) for answer in answers]

    def _shaped(self, values: torch.Tensor) -> Array:
        array = values.numpy()
        return array[:, 0] if self.is_vector_ else array
