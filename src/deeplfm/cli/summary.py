"""Short descriptions of data and models: lines and tables for people, and the same as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from deeplfm.cli.terminal import number, table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table

    from deeplfm.cli.inputs import Series
    from deeplfm.estimators import DeepLFMForecaster

SCORES_EXPLAINED = (
    "Lower scores are better; NMSE 1 is no better than the mean of these rows. RMSE, MAE, CRPS and MNLL "
    "are for the target in its own units. Coverage should be near 95 %."
)
_HEADERS = {
    **{name: name.upper() for name in ("nmse", "mnll", "crps", "rmse", "mae")},
    "coverage95": "95 % coverage",
}


def of_series(series: Series, source: str) -> list[str]:
    """Rows of a table and the roles of its columns."""
    guess = " (--time names another)" if series.time_is_guessed else ""
    times = " and ".join(map(repr, series.time_columns))
    many = f" of {series.n_series} series" if series.n_series else ""
    lines = [f"{source}: {len(series.frame)} rows{many}, time in {times}{guess}"]
    lines.append(f"Targets: {', '.join(series.targets)}")
    if series.covariates:
        lines.append(f"Covariates: {', '.join(series.covariates)}")
    if series.left_out:
        lines.append(f"Left out, not numeric: {', '.join(series.left_out)}")
    return lines


def next_options(series: Series) -> str:
    """Options of a first forecast, whose length is its default."""
    known = " --covariates FUTURE.csv" * bool(series.covariates)
    return known + (" -o forecast.csv" if series.n_series else " --plot forecast.png")


def of_fit(forecaster: DeepLFMForecaster, seconds: float) -> str:
    """One line about a fit."""
    from deeplfm.inspection.depth import kind_of

    regressor = forecaster.regressor_
    n_fitted = sum(item.status == "fitted" for item in regressor.fit_result_.candidates)
    kind = kind_of(regressor.model_, regressor.fit_result_)
    return f"Fitted {n_fitted} candidate{'s' * (n_fitted != 1)} in {seconds:.0f} s: {kind}"


def of_model(forecaster: DeepLFMForecaster) -> dict[str, Any]:
    """A fitted forecaster as plain data."""
    from deeplfm.inspection.depth import kind_of

    training, timeline = forecaster.training_, forecaster.timeline_
    regressor = forecaster.regressor_
    result = regressor.fit_result_
    targets = {}
    for output, name in enumerate(forecaster.targets_):
        scores = [in_user_units(forecaster, mnll)[output] for mnll in result.held_out_mnll.values()]
        targets[name] = {
            "known": int(training[name].notna().sum()),
            "missing": int(training[name].isna().sum()),
            "held_out_mnll": min(scores, default=None),
            "held_out_nmse": result.held_out_nmse[output] if result.held_out_nmse else None,
            "is_log": bool(regressor.scaling_.is_log[output]),
        }

    def by_target(values: list[float]) -> dict[str, float]:
        return {str(name): value for name, value in zip(forecaster.targets_, values, strict=False)}

    return {
        "kind": kind_of(regressor.model_, result),
        "time": {
            "name": timeline.name,
            "kind": timeline.kind,
            "zone": timeline.zone,
            "first": training.index[0],
            "last": training.index[-1],
        },
        "rows": len(training),
        "targets": targets,
        "covariates": forecaster.covariates_,
        "candidates": {
            name: {
                "weight": by_target(result.weight.get(name, [])),
                "weight_in_gaps": by_target(result.weight_in_gaps.get(name, [])),
                "held_out_mnll": by_target(
                    in_user_units(forecaster, result.held_out_mnll.get(name, []))
                ),
            }
            for name in dict.fromkeys([*result.held_out_mnll, *result.weight_in_gaps])
        },
        "failed": result.failed,
        "left_out": result.unsuitable,
        "untried": result.untried,
        "interrupted": result.interrupted,
        "settings": forecaster.get_params(),
    }


def in_user_units(forecaster: DeepLFMForecaster, scores: list[float]) -> list[float]:
    """MNLL of standardised targets, converted to the units of the user."""
    regressor = forecaster.regressor_
    shifts = regressor.fit_result_.log_jacobian or [0.0] * len(scores)
    return [score + float(shift) for score, shift in zip(scores, shifts, strict=False)]


def target_table(forecaster: DeepLFMForecaster) -> Table:
    """Rows, gaps and held-out score of each target."""
    rows, targets = [], of_model(forecaster)["targets"]
    has_scores = any(facts["held_out_nmse"] is not None for facts in targets.values())
    for name, facts in targets.items():
        row = [f"{name} (logarithm)" if facts["is_log"] else name, facts["known"], facts["missing"]]
        if has_scores:
            row += [explained_variance(facts["held_out_nmse"]), facts["held_out_mnll"]]
        rows.append(row)
    headers = ["target", "known", "missing"]
    headers += ["variance predicted of held-out rows", "MNLL, in own units"] * has_scores
    return table(headers, rows)


def explained_variance(nmse: float | None) -> str:
    """A normalised squared error as the share of the variance that was predicted."""
    if nmse is None or math.isnan(nmse):
        return "not scored"
    if nmse > 0.995:
        return "none"
    return f"{100 * (1 - nmse):.3g} %"


def selection_table(forecaster: DeepLFMForecaster) -> Group:
    """Held-out score and weight of each candidate, the best first, and those without a score."""
    from rich.console import Group

    result, n_targets = forecaster.regressor_.fit_result_, len(forecaster.targets_)
    has_gaps, missing = bool(result.weight_in_gaps), [math.nan] * n_targets
    rows = []
    for item in (result[name] for name in forecaster.selection_.index):
        if item.status != "fitted":
            continue
        scores = in_user_units(forecaster, item.mnll or missing)
        weights = item.weight or [float(not result.weight)] * n_targets
        in_gaps = item.weight_in_gaps or [0.0] * n_targets
        cells = [
            f"{number(score)} ({100 * weight:.0f}{f' | {100 * gap:.0f}' if has_gaps else ''} %)"
            for score, weight, gap in zip(scores, weights, in_gaps, strict=True)
        ]
        rows.append([item.name, *cells, f"{item.seconds:.1f}"])
    title = "Candidates: MNLL of known rows that were forecast, in units of the target, and weight"
    title += " | in gaps" if has_gaps else ""
    lines = [f"Failed: {name}: {reason}" for name, reason in result.failed.items()]
    lines += [f"Not tried: {', '.join(result.untried)}"] if result.untried else []
    lines += [f"Not for these data: {', '.join(result.unsuitable)}"] if result.unsuitable else []
    return Group(
        table(["candidate", *map(str, forecaster.targets_), "seconds"], rows, title), *lines
    )


def score_table(scores: pd.DataFrame, title: str | None = None) -> Table:
    """Scores on later rows, as returned by ``evaluate`` of a forecaster."""
    rows = [
        [str(name), *(_score(column, value) for column, value in row.items())]
        for name, row in scores.iterrows()
    ]
    headers = [_HEADERS.get(name, name) for name in scores.columns]
    return table([str(scores.index.name or "target"), *headers], rows, title)


def _score(column: Any, value: float) -> str:
    if column == "rows":
        return str(int(value))
    if str(column).startswith("coverage") and not math.isnan(value):
        return f"{value:.0%}"
    return number(float(value))
