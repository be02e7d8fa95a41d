"""``deeplfm backtest``, ``compare`` and ``tune``: scores of forecasts from several past origins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deeplfm.cli import panels
from deeplfm.cli.inputs import load_forecaster, read_series
from deeplfm.cli.options import (
    ColumnOptions,
    Data,
    FileOptions,
    FitOptions,
    Fitted,
    RunOptions,
    Table,
    option,
)
from deeplfm.cli.outputs import Results
from deeplfm.cli.summary import SCORES_EXPLAINED, of_series, score_table
from deeplfm.cli.terminal import table
from deeplfm.errors import InputError

BACKTEST_EXAMPLES = (
    "deeplfm backtest sales-model",
    "deeplfm backtest sales-model --folds 10 --horizon 12 -o folds.csv",
)
COMPARE_EXAMPLES = (
    'deeplfm compare sales.csv "trend + season(12) + level" "trend + level" ensemble',
    "deeplfm compare sales.csv ensemble auto --folds 5 --horizon 12 -o scores.csv",
)
TUNE_EXAMPLES = (
    'deeplfm tune sales.csv "trend + season(12) + level" "trend + level" auto',
    "deeplfm tune sales.csv auto --vary effort=fast,default --vary log_targets=true,false",
    "deeplfm tune sales.csv dlfm --vary n_steps=50,100,200 --trials 20 --study sales.db --jobs 2",
)

Folds = Annotated[int, option(None, "N", "Number of origins.", min=1)]
Rows = Annotated[
    int | None, option(None, "ROWS", "Rows after each origin. Default: a tenth of all.", min=1)
]

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="Names or sums of terms, as for fit --model.",
        show_default=False,
    ),
]


Score = Literal["crps", "mnll", "nmse", "rmse", "mae"]  # less is better


def backtest(
    model: Fitted,
    *,
    folds: Folds = 5,
    horizon: Rows = None,
    out: Table = None,
    run: RunOptions,
) -> None:
    """Score forecasts from several origins in the past, with the data and settings of a model.

    Each fold fits the model to the rows before its origin, and scores it on the rows after it.
    """
    results = Results(run, out)
    forecaster = load_forecaster(model, may_be_panel=True)
    forecaster.set_params(progress=False if run.quiet else None)
    found = forecaster.backtest(folds, horizon)
    if forecaster.panel_ is not None:
        panels.write_scores(forecaster, results, found, {"model": model, "folds": folds})
        return
    for side in ("start", "end"):
        found[side] = forecaster.timeline_.texts(forecaster.timeline_.read(found[side]))
    results.write(found, with_index=False)
    scores = [name for name in found.columns if name not in ("fold", "train_rows", "start", "end")]
    means = found[scores].groupby("target", sort=False)
    mean = (
        means.mean()
        .assign(test_rows=means["test_rows"].sum())
        .rename(columns={"test_rows": "rows"})
    )
    n_folds, first = int(found["fold"].max()), found["start"].iloc[0]
    results.terminal.print(
        score_table(mean), f"Means over {n_folds} origins, the first at {first}. {SCORES_EXPLAINED}"
    )
    content = {"model": model, "folds": n_folds, "scores": mean.to_dict("index")}
    results.print(content, found)


def compare(
    data: Data,
    models: Models,
    *,
    folds: Folds = 3,
    horizon: Rows = None,
    out: Table = None,
    columns: ColumnOptions,
    file: FileOptions,
    settings: FitOptions,
    run: RunOptions,
) -> None:
    """Compare models: fit each before the same origins, and score it on the rows after them."""
    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.estimators.comparison import compare as compare_models

    results = Results(run, out)
    series = read_series(data, file, columns)
    if series.n_series:
        raise InputError(
            f"{data}: {series.n_series} series found, and models are compared on one of them. Fit "
            "each model to all with deeplfm fit, and score it with deeplfm backtest."
        )
    results.terminal.print(*of_series(series, data))
    common = settings.parameters() | {"progress": False if run.quiet else None}
    declared = {text: DeepLFMForecaster(**common | {"model": text}) for text in models}
    found = compare_models(
        declared,
        series.frame,
        folds=folds,
        horizon=horizon,
        **series.arguments,
    )
    results.write(found)
    for target in series.targets:
        results.terminal.print(score_table(found.loc[target], str(target)))
    results.terminal.print(f"Means over {folds} origins. {SCORES_EXPLAINED}")
    results.print({"data": data, "folds": folds}, found.reset_index())


def tune(
    data: Data,
    models: Models,
    *,
    vary: Annotated[
        list[str] | None,
        option(None, "SETTING=VALUES", "Values of another setting, separated by commas."),
    ] = None,
    trials: Annotated[
        int, option(None, "N", "Trials in all, with those in the study.", min=1)
    ] = 20,
    score: Annotated[Score, typer.Option(help="Score of a trial.")] = "crps",
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

    if columns.pooled or columns.static is not None:
        raise InputError("--pooled, --static: trials score each series by itself. Leave them out.")
    results = Results(run, out)
    series = read_series(data, file, columns)
    results.terminal.print(*of_series(series, data))
    space: dict[str, list[Any]] = {"model": list(models)} | dict(map(_values, vary or []))
    tuned = tune_models(
        space,
        series.frame,
        n_trials=trials,
        score=score,
        folds=folds,
        horizon=horizon,
        storage=study,
        base=DeepLFMForecaster(**settings.parameters()),
        n_jobs=effective_n_jobs(settings.parameters()["n_jobs"]),
        progress=False if run.quiet else None,
        **series.arguments,
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
