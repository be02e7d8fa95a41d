"""``deeplfm tune``: models and settings chosen by forecasts from several origins."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from deeplfm.cli.backtests import Folds, Rows
from deeplfm.cli.inputs import read_series
from deeplfm.cli.options import (
    ColumnOptions,
    Data,
    FileOptions,
    FitOptions,
    RunOptions,
    Table,
    option,
)
from deeplfm.cli.outputs import Results
from deeplfm.cli.summary import of_series
from deeplfm.cli.terminal import table
from deeplfm.errors import InputError

EXAMPLES = (
    'deeplfm tune sales.csv "trend + season(12) + level" "trend + level" auto',
    "deeplfm tune sales.csv auto --vary effort=fast,default --vary log_targets=true,false",
    "deeplfm tune sales.csv dlfm --vary n_steps=50,100,200 --trials 20 --study sales.db --jobs 2",
)


class Score(StrEnum):
    """Scores of a forecast of which less is better."""

    CRPS = "crps"
    MNLL = "mnll"
    NMSE = "nmse"
    RMSE = "rmse"
    MAE = "mae"


def tune(
    data: Data,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names or sums of terms, as for fit --model.",
            show_default=False,
        ),
    ],
    *,
    vary: Annotated[
        list[str] | None,
        option(None, "SETTING=VALUES", "Values of another setting, separated by commas."),
    ] = None,
    trials: Annotated[
        int, option(None, "N", "Trials in all, with those in the study.", min=1)
    ] = 20,
    score: Annotated[Score, typer.Option(help="Score of a trial.")] = Score.CRPS,
    study: Annotated[
        Path | None,
        option(None, "FILE", "Keep the trials; the same command goes on after them."),
    ] = None,
    folds: Folds = 3,
    horizon: Rows = None,
    out: Table = None,
    columns: ColumnOptions,
    file: FileOptions,
    settings: FitOptions,
    run: RunOptions,
) -> None:
    """Choose among models and settings by their forecasts from several origins. Needs Optuna."""
    from joblib import effective_n_jobs

    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.estimators.tuning import tune as tune_models

    results = Results(run, out)
    series = read_series(data, file, columns)
    results.terminal.print(*of_series(series, data))
    space: dict[str, list[Any]] = {"model": list(models)} | dict(map(_values, vary or []))
    tuned = tune_models(
        space,
        series.frame,
        n_trials=trials,
        score=str(score),
        folds=folds,
        horizon=horizon,
        storage=study,
        base=DeepLFMForecaster(**settings.parameters()),
        n_jobs=effective_n_jobs(settings.parameters()["n_jobs"]),
        progress=False if run.quiet else None,
        time=series.time,
        targets=[*series.targets],
        covariates=[*series.covariates],
        **series.fit_options,
    )
    found = tuned.table
    results.write(found, with_index=False)
    texts = [[_text(value) for value in row] for row in found.itertuples(index=False)]
    results.terminal.print(table([*found.columns], texts, f"Trials, the lowest {score} first"))
    best = {key: getattr(tuned.best, key) for key in space}
    results.terminal.print(f"Best: {', '.join(f'{key} = {value}' for key, value in best.items())}")
    results.print({"data": data, "folds": folds, "best": best}, found)


def _values(text: str) -> tuple[str, list[Any]]:
    """A setting and its values, which are JSON or plain text."""
    name, sign, values = text.partition("=")
    if not (name and sign and values):
        raise InputError(f"--vary: {text!r} found. Write it as n_steps=50,100.")
    return name.strip().replace("-", "_"), [_value(value.strip()) for value in values.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
