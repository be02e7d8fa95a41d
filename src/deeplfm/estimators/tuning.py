"""Tuning: declared models and settings are tried by backtests, and Optuna proposes the next ones."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from deeplfm.errors import ConfigError, DeepLFMError, InputError
from deeplfm.estimators.comparison import compare
from deeplfm.estimators.forecaster import DeepLFMForecaster
from deeplfm.estimators.over_series import long_frame, series_column
from deeplfm.estimators.panel_columns import PanelColumns
from deeplfm.training.progress import progress_bar

_IN_UNITS = ("crps", "rmse", "mae")  # of the targets, so that they are compared after scaling
_MINIMISED = ("crps", "mnll", "nmse", "rmse", "mae")
_STUDY = "deeplfm"
Space = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tuning:
    """The result of :func:`tune`.

    Attributes:
        table: one row for each trial, the best first: its settings, ``score``, ``seconds``, and why it
            or a series of it ``failed``, if one did.
        best: a forecaster with the best settings, to be fitted.
    """

    table: pd.DataFrame
    best: DeepLFMForecaster


def tune(
    space: Space,
    frame: pd.DataFrame,
    *,
    n_trials: int = 20,
    score: str = "crps",
    folds: int = 3,
    horizon: int | None = None,
    storage: str | Path | None = None,
    base: DeepLFMForecaster | None = None,
    series: str | None = None,
    n_jobs: int = 1,
    progress: bool | None = None,
    **options: Any,
) -> Tuning:
    """Choose among declared models and settings by their forecasts from several origins.

    Every combination is tried where ``n_trials`` suffice; otherwise Optuna proposes promising ones.
    Trials run through joblib, so ``joblib.parallel_config`` sends them to a cluster.
    Needs Optuna: ``pip install 'deeplfm[tune]'``.

    Args:
        space: for parameters of :class:`DeepLFMForecaster`, a list of values to choose from, or a tuple
            of the least and the largest number.
        frame: as :meth:`DeepLFMForecaster.fit` takes it.
        n_trials: number of trials, with those that the storage holds already.
        score: "crps", "mnll", "nmse", "rmse" or "mae": its mean over origins, targets and series; those
            in units of a target are divided by the standard deviation of its values.
        folds: number of origins.
        horizon: rows after each origin; by default as in :meth:`DeepLFMForecaster.backtest`.
        storage: file in which trials are kept, or an address of a database. The same call goes on after
            the trials in it; other data or settings are refused.
        base: settings that all trials share.
        series: name of the column of series of a frame in long form, as in :meth:`DeepLFMForecaster.fit`.
        n_jobs: trials at a time.
        progress: show a bar.
        **options: other arguments of :func:`deeplfm.compare`, such as ``time`` and ``targets``.

    >>> import numpy as np
    >>> frame = pd.DataFrame({"load": 50 + 9 * np.sin(np.arange(60) * 2 * np.pi / 12)})
    >>> models = {"model": ["trend", "trend + season(12)"]}
    >>> tune(models, frame, folds=2, base=DeepLFMForecaster(n_steps=3)).best.model
    'trend + season(12)'
    """
    base = DeepLFMForecaster() if base is None else base
    _check(space, base, score, n_trials)
    given = long_frame(frame, "frame")
    column, tables = series_column(given, series), [given]
    if column is not None:
        roles = [options.get(name) for name in ("time", "targets", "covariates")]
        columns = PanelColumns.choose(given, column, *roles)
        tables = [rows for _, rows in columns.split(given)]
        options |= {"time": columns.time, "targets": columns.targets}
    setting = {"folds": folds, "horizon": horizon, **options}
    identity = _identity(tables, space, base, score, setting)
    study = _Study.of(storage, space, identity, n_trials, base.random_state)
    with progress_bar("trials", progress, unit="trials") as bar:
        while (n_left := study.n_trials - study.n_done) > 0:
            bar.update(study.n_done, study.n_trials, math.nan)
            trials = [study.ask() for _ in range(min(n_jobs, n_left))]
            models = [_with(base, study.settings(trial)) for trial in trials]
            calls = (delayed(_outcome)(model, tables, score, setting) for model in models)
            for trial, outcome in zip(trials, Parallel(n_jobs=n_jobs)(calls), strict=True):
                study.keep(trial, *outcome)
    table = study.table()
    if table["score"].isna().all():
        raise InputError(
            f"tune: all {len(table)} trials failed (first: {table['failed'].iloc[0]})."
        )
    return Tuning(table, _with(base, study.best))


def _outcome(
    model: DeepLFMForecaster,
    tables: list[pd.DataFrame],
    score: str,
    setting: dict[str, Any],
) -> tuple[float, float, str]:
    """The mean score of one trial, its seconds, and why it or some series have no score."""
    began, values, reasons = monotonic(), [], []
    model.set_params(progress=False, n_jobs=1)
    for table in tables:
        try:
            found = compare({"": model}, table, **setting)[score].droplevel("model")
            unit = [_std(table, target) if score in _IN_UNITS else 1.0 for target in found.index]
            values.append(float((found / unit).mean()))
        except InputError as error:  # a bad series never stops the others
            reasons.append(str(error))
        except DeepLFMError as error:
            return math.nan, monotonic() - began, str(error)
    failed = reasons[0] if reasons else ""
    if values and reasons:
        failed = f"{len(reasons)} of {len(tables)} series left out (first: {failed})"
    return float(np.mean(values)) if values else math.nan, monotonic() - began, failed


def _with(base: DeepLFMForecaster, chosen: Mapping[str, Any]) -> DeepLFMForecaster:
    return DeepLFMForecaster(**base.get_params(deep=False) | dict(chosen))


def _std(table: pd.DataFrame, target: Any) -> float:
    return float(pd.to_numeric(table[target]).std()) or 1.0


def _check(space: Space, base: DeepLFMForecaster, score: str, n_trials: int) -> None:
    known = base.get_params(deep=False)
    for key, values in space.items():
        if key not in known:
            raise ConfigError(
                f"space: {key!r} is no parameter of DeepLFMForecaster. Choose from {', '.join(known)}."
            )
        is_list = isinstance(values, list) and len(values) > 0
        if not (is_list or (isinstance(values, tuple) and _is_range(values))):
            raise ConfigError(
                f"space: {key} is {values!r}. Give a list of values, or a tuple of the least and the "
                "largest number."
            )
    if not space:
        raise ConfigError("space: it is empty. Give values of at least one parameter.")
    if score not in _MINIMISED:
        raise ConfigError(f"score: {score!r} found. Choose one of {', '.join(_MINIMISED)}.")
    if n_trials < 1:
        raise ConfigError(f"n_trials: {n_trials} found. Give a number of at least 1.")


def _is_range(values: tuple[Any, ...]) -> bool:
    numbers = all(isinstance(value, int | float) for value in values)
    return len(values) == 2 and numbers and values[0] < values[1]


def _identity(
    tables: list[pd.DataFrame],
    space: Space,
    base: DeepLFMForecaster,
    score: str,
    setting: dict[str, Any],
) -> str:
    """A short text that two studies share if one may continue the other."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(table.to_csv().encode())
    kept = {key: repr(value) for key, value in sorted(base.get_params(deep=False).items())}
    shown = {key: repr(value) for key, value in space.items()}
    digest.update(repr((shown, kept, score, sorted(setting.items(), key=str))).encode())
    return digest.hexdigest()[:16]


class _Study:
    """Trials of Optuna. It knows values of a list by their texts, as its storage does."""

    def __init__(self, optuna: Any, study: Any, space: Space, n_trials: int) -> None:
        self._optuna, self._study, self._space = optuna, study, space
        self._asked: list[Any] = []
        texts = [[repr(v) for v in values] for values in space.values() if isinstance(values, list)]
        is_finite = len(texts) == len(space)
        self._grid = [*itertools.product(*texts)] if is_finite else []
        self._is_tried_whole = is_finite and len(self._grid) <= n_trials
        self.n_trials = len(self._grid) if self._is_tried_whole else n_trials

    @classmethod
    def of(
        cls,
        storage: str | Path | None,
        space: Space,
        identity: str,
        n_trials: int,
        seed: int | None,
    ) -> _Study:
        """A new study, or the one in the storage."""
        try:
            optuna = import_module("optuna")
        except ImportError as error:
            raise ConfigError(
                "tune: Optuna is not installed. Run: pip install 'deeplfm[tune]'"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        address = storage if storage is None or "://" in str(storage) else f"sqlite:///{storage}"
        study = optuna.create_study(
            storage=None if address is None else str(address),
            study_name=_STUDY,
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            load_if_exists=True,
        )
        if study.user_attrs.get("identity", identity) != identity:
            raise InputError(
                f"tune: {storage} holds trials of other data or settings. Give another file, or "
                "delete it to begin anew."
            )
        study.set_user_attr("identity", identity)
        running = (optuna.trial.TrialState.RUNNING,)
        for trial in study.get_trials(deepcopy=False, states=running):  # of a run that was killed
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        return cls(optuna, study, space, n_trials)

    @property
    def n_done(self) -> int:
        """Trials that have an outcome."""
        return len(self._done)

    @property
    def _done(self) -> list[Any]:
        return [t for t in self._study.get_trials(deepcopy=False) if "seconds" in t.user_attrs]

    def ask(self) -> Any:
        """A trial with settings to try next."""
        if self._is_tried_whole:
            tried = [tuple(t.params.values()) for t in (*self._done, *self._asked)]
            left = next(one for one in self._grid if one not in tried)
            self._study.enqueue_trial(dict(zip(self._space, left, strict=True)))
        trial = self._study.ask({key: self._range(values) for key, values in self._space.items()})
        self._asked.append(trial)
        return trial

    def _range(self, values: Sequence[Any]) -> Any:
        of = self._optuna.distributions
        if not isinstance(values, tuple):
            return of.CategoricalDistribution([repr(value) for value in values])
        is_whole = all(isinstance(value, int) for value in values)
        kind = of.IntDistribution if is_whole else of.FloatDistribution
        return kind(*values, log=values[0] > 0)

    def settings(self, trial: Any) -> dict[str, Any]:
        """Values that the parameters of a trial stand for."""
        return {
            key: trial.params[key]
            if isinstance(values, tuple)
            else next(value for value in values if repr(value) == trial.params[key])
            for key, values in self._space.items()
        }

    def keep(self, trial: Any, score: float, seconds: float, failed: str) -> None:
        """Keep the outcome of a trial."""
        self._asked.remove(trial)
        trial.set_user_attr("seconds", seconds)
        trial.set_user_attr("failed", failed)
        state = None if math.isfinite(score) else self._optuna.trial.TrialState.FAIL
        self._study.tell(trial, score if state is None else None, state=state)

    @property
    def best(self) -> dict[str, Any]:
        """The settings of the lowest score."""
        return self.settings(self._study.best_trial)

    def table(self) -> pd.DataFrame:
        """One row for each trial with an outcome, the best first."""
        rows = [
            {
                **self.settings(trial),
                "score": math.nan if trial.value is None else trial.value,
                "seconds": trial.user_attrs["seconds"],
                "failed": trial.user_attrs["failed"],
            }
            for trial in self._done
        ]
        return pd.DataFrame(rows).sort_values("score", kind="stable", ignore_index=True)
