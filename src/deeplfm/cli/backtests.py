"""``deeplfm backtest`` and ``deeplfm compare``: scores of forecasts from several origins in the past."""

from __future__ import annotations

from typing import Annotated

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
from deeplfm.errors import InputError

BACKTEST_EXAMPLES = (
    "deeplfm backtest sales-model",
    "deeplfm backtest sales-model --folds 10 --horizon 12 -o folds.csv",
)
COMPARE_EXAMPLES = (
    'deeplfm compare sales.csv "trend + season(12) + level" "trend + level" ensemble',
    "deeplfm compare sales.csv ensemble auto --folds 5 --horizon 12 -o scores.csv",
)

Folds = Annotated[int, option(None, "N", "Number of origins.", min=1)]
Rows = Annotated[
    int | None, option(None, "ROWS", "Rows after each origin. Default: a tenth of all.", min=1)
]


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
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names or sums of terms, as for fit --model.",
            show_default=False,
        ),
    ],
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
        time=series.time,
        targets=[*series.targets],
        covariates=[*series.covariates],
        **series.fit_options,
    )
    results.write(found)
    for target in series.targets:
        results.terminal.print(score_table(found.loc[target], str(target)))
    results.terminal.print(f"Means over {folds} origins. {SCORES_EXPLAINED}")
    results.print({"data": data, "folds": folds}, found.reset_index())
