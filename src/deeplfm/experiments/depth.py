"""The worth of depth: the best model without a hidden layer, the best with one, and the ensemble."""

from __future__ import annotations

import statistics

from deeplfm.experiments.declaration import Column, Entry
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.tables import markdown_lines, number

_NOTHING = "–"
WORDS = (
    "The best model of each kind, by the mean over the columns of MNLL, or of NMSE where there are none. "
    "Hidden share: variance of the forecast that passes through hidden layers, as a share of the sum of "
    "both parts (`hidden_share`)."
)


def depth_table(outcome: Outcome) -> list[str]:
    """Lines of the table; none where models of one of the kinds have no scores."""
    shallow, deep = (_best(outcome, has_hidden_layer=kind) for kind in (False, True))
    if shallow is None or deep is None:
        return []
    whole = [entry for entry in outcome.experiment.models if entry.label == "ensemble"]
    columns = outcome.experiment.columns
    texts = [
        ["what depth is worth", "model", *(column.label for column in columns), "hidden share"]
    ]
    kinds = {"without a hidden layer": shallow, "with hidden layers": deep}
    for name, entry in [*kinds.items(), *(("ensemble", entry) for entry in whole)]:
        cells = [_median(outcome, entry, column) for column in columns]
        texts.append([name, entry.label, *cells, _share(outcome, entry)])
    return [*markdown_lines(texts), "", WORDS]


def _best(outcome: Outcome, has_hidden_layer: bool) -> Entry | None:
    scores = {}
    for entry in outcome.experiment.models:
        if entry.has_hidden_layer is not has_hidden_layer:
            continue
        compared = [c for c in outcome.experiment.columns if c.metric == "mnll"]
        found = [outcome.summary(entry, c) for c in compared or outcome.experiment.columns]
        medians = [item.median for item in found if item is not None]
        if medians and len(medians) == len(found):
            scores[entry] = statistics.fmean(medians)
    return min(scores, key=scores.__getitem__, default=None)


def _median(outcome: Outcome, entry: Entry, column: Column) -> str:
    found = outcome.summary(entry, column)
    return _NOTHING if found is None else number(found.median, column.decimals)


def _share(outcome: Outcome, entry: Entry) -> str:
    if entry.has_hidden_layer is False:
        return "0 %"
    known = [r["hidden_share"] for r in outcome.of(entry) if r.get("hidden_share") is not None]
    return f"{100 * statistics.fmean(known):.0f} %" if known else _NOTHING
