"""Models in a few words: the tables that ``fit`` and ``info`` print, and the same as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from deeplfm.cli.terminal import number, table

if TYPE_CHECKING:
    from rich.table import Table

    from deeplfm.cli.series import Series
    from deeplfm.estimators import DeepLFMForecaster

SCORES_IN_WORDS = (
    "NMSE 1: no better than the mean of these rows. Lower is better; coverage should be near 95 %."
)
_HEADERS = {
    "nmse": "NMSE",
    "mnll": "MNLL",
    "crps": "CRPS",
    "rmse": "RMSE",
    "mae": "MAE",
    "coverage95": "95 % covers",
}


def about(series: Series, source: str) -> list[str]:
    """How a table was understood."""
    guess = " (--time names another)" if series.time_is_guessed else ""
    times = " and ".join(map(repr, series.time_columns))
    lines = [f"{source}: {len(series.frame)} rows, time in {times}{guess}"]
    lines.append(f"Targets: {', '.join(series.targets)}")
    if series.covariates:
        lines.append(f"Covariates: {', '.join(series.covariates)}")
    if series.left_out:
        lines.append(f"Left out, since they are not numbers: {', '.join(series.left_out)}")
    return lines


def of_model(forecaster: DeepLFMForecaster) -> dict[str, Any]:
    """What a fitted forecaster is, as plain data."""
    training, timeline = forecaster.training_, forecaster.timeline_
    report = forecaster.regressor_.fit_result_
    return {
        "time": {
            "name": timeline.name,
            "kind": timeline.kind,
            "zone": timeline.zone,
            "first": training.index[0],
            "last": training.index[-1],
        },
        "rows": len(training),
        "targets": {
            name: {
                "known": int(training[name].notna().sum()),
                "missing": int(training[name].isna().sum()),
                "held_out_mnll": held_out_mnll(forecaster, output),
                "held_out_nmse": report.held_out_nmse[output] if report.held_out_nmse else None,
                "is_log": bool(forecaster.regressor_.scaling_.is_log[output]),
            }
            for output, name in enumerate(forecaster.targets_)
        },
        "covariates": forecaster.covariates_,
        "starts": {
            name: {
                "weight": _by_target(forecaster, report.weight.get(name, [])),
                "weight_in_gaps": _by_target(forecaster, report.weight_in_gaps.get(name, [])),
                "held_out_mnll": _by_target(
                    forecaster,
                    _in_users_units(forecaster, report.held_out_mnll.get(name, [])),
                ),
            }
            for name in dict.fromkeys([*report.held_out_mnll, *report.weight_in_gaps])
        },
        "failed_starts": report.failed,
        "left_out_starts": report.unsuitable,
        "untried_starts": report.untried,
        "interrupted": report.interrupted,
        "settings": forecaster.get_params(),
    }


def changed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that are not as they come, without those that do not shape the model."""
    from deeplfm.estimators import DeepLFMForecaster

    usual = DeepLFMForecaster().get_params()
    usual |= {name: settings[name] for name in ("random_state", "n_jobs", "progress")}
    return {name: value for name, value in settings.items() if value != usual[name]}


def held_out_mnll(forecaster: DeepLFMForecaster, output: int) -> float | None:
    """Score of the best start on the held-out rows, in the user's units."""
    starts = forecaster.regressor_.fit_result_.held_out_mnll.values()
    return min((_in_users_units(forecaster, scores)[output] for scores in starts), default=None)


def target_table(forecaster: DeepLFMForecaster) -> Table:
    """Rows, gaps and held-out score of each target."""
    content = of_model(forecaster)
    rows = []
    for name, facts in content["targets"].items():
        mnll = facts["held_out_mnll"]
        words = in_words(facts["held_out_nmse"])
        name = f"{name} (logarithm)" if facts["is_log"] else name
        rows.append((name, words, facts["known"], facts["missing"], mnll))
    headers = ["target", "held-out rows", "known", "missing", "held-out MNLL, best start"]
    return table(headers, rows, words=2)


def in_words(nmse: float | None) -> str:
    """An error over the variance of its rows as the share of this variance that was foreseen."""
    if nmse is None or math.isnan(nmse):
        return "not scored"
    if nmse > 0.995:
        return "no better than their mean"
    return f"{100 * (1 - nmse):.3g} % of the variance foreseen"


def start_table(forecaster: DeepLFMForecaster) -> Table:
    """The starts behind the model of each target, the heaviest first."""
    report = forecaster.regressor_.fit_result_
    weights = [report.weight or {name: [1.0] * len(forecaster.targets_) for name in report.names}]
    headers = ["target", "starts and their weights"]
    if report.weight_in_gaps:
        weights.append(report.weight_in_gaps)
        headers.append("weights in gaps")
    rows = [
        [str(name), *(_ranked(by_start, output) for by_start in weights)]
        for output, name in enumerate(forecaster.targets_)
    ]
    rows += [["failed", f"{start}: {reason}"] for start, reason in report.failed.items()]
    rows += [["not tried", ", ".join(report.untried)]] if report.untried else []
    return table(headers, [row + [""] * (len(headers) - len(row)) for row in rows], words=3)


def _ranked(weights: dict[str, list[float]], output: int) -> str:
    """Starts with their shares in an output, the heaviest first."""
    ranked = sorted(weights.items(), key=lambda item: -item[1][output])
    shares = ((start, 100 * weight[output]) for start, weight in ranked)
    return ", ".join(f"{start} {share:.0f} %" for start, share in shares if share >= 0.5)


def score_table(scores: Any) -> Table:
    """Scores of later rows, as ``evaluate`` of a forecaster gives them."""
    rows = [
        [str(name), *(_score(column, value) for column, value in row.items())]
        for name, row in scores.iterrows()
    ]
    return table(["target", *(_HEADERS.get(name, name) for name in scores.columns)], rows)


def _score(column: Any, value: float) -> str:
    if column == "rows":
        return str(int(value))
    if str(column).startswith("coverage") and not math.isnan(value):
        return f"{value:.0%}"
    return number(float(value))


def _by_target(forecaster: DeepLFMForecaster, values: list[float]) -> dict[str, float]:
    return {str(name): value for name, value in zip(forecaster.targets_, values, strict=False)}


def _in_users_units(forecaster: DeepLFMForecaster, scores: list[float]) -> list[float]:
    """Scores of standardised targets, as ``evaluate`` would give them."""
    regressor = forecaster.regressor_
    units = regressor.fit_result_.log_jacobian
    return [score + float(unit) for score, unit in zip(scores, units, strict=False)]
