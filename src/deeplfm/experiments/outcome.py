"""Records of an experiment as scores over the seeds, and what failed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from deeplfm.experiments.declaration import Column, Entry, Experiment
from deeplfm.experiments.tasks import DONE, Record

_LIMITED = (
    "of one model; an ensemble has this time for each of its candidates. DLFM and models "
    "marked (paper) or (reference) have no limit. Those marked (paper) take 1000 steps, those marked "
    "(reference) the number in the notes; the paper gives none."
)


@dataclass(frozen=True)
class Summary:
    """One score over the seeds; the standard error of the mean is ``None`` for a single seed."""

    values: tuple[float, ...]
    median: float
    mean: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary | None:
        """Summary of some seeds, if there are any."""
        if not values:
            return None
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(tuple(values), statistics.median(values), statistics.fmean(values), error)


@dataclass(frozen=True, eq=False)
class Outcome:
    """An experiment and the records of its tasks."""

    experiment: Experiment
    records: Sequence[Record]
    n_seeds: int
    is_quick: bool = False
    budget: float | None = None

    def summary(self, entry: Entry, column: Column) -> Summary | None:
        """One cell: for each seed the mean over cases and outputs, where none is missing."""
        found = (self._value(entry, column, seed) for seed in range(self.n_seeds))
        return Summary.of([value for value in found if value is not None])

    def seconds(self, entry: Entry) -> float | None:
        """Median time to fit."""
        times = [record["seconds"].get("fit") for record in self.of(entry)]
        return statistics.median(known) if (known := [t for t in times if t is not None]) else None

    def done(self, entry: Entry) -> str:
        """Number of its tasks that are done, of all of them."""
        n_tasks = self.n_seeds * len(self.experiment.cases)
        return f"{sum(record['status'] == DONE for record in self.of(entry))}/{n_tasks}"

    def seeds(self, entry: Entry) -> str:
        """Number of seeds, and of fits where some are missing."""
        done = [record for record in self.of(entry) if record["status"] == DONE]
        n_seeds = len({record["seed"] for record in done})
        n_fits = n_seeds * len(self.experiment.cases)
        return str(n_seeds) if len(done) == n_fits else f"{n_seeds} ({len(done)}/{n_fits} fits)"

    def sources(self) -> dict[str, list[str]]:
        """Models by the version of the code that computed them, most recent first."""
        latest: dict[str, str] = {}
        models: dict[str, list[str]] = {}
        for record in self.records:
            source = record.get("source") or "an unknown one"
            latest[source] = max(latest.get(source, ""), record.get("finished", ""))
            if record["model"] not in models.setdefault(source, []):
                models[source].append(record["model"])
        return {source: models[source] for source in sorted(models, key=latest.__getitem__)[::-1]}

    def made_of(self) -> list[str]:
        """The candidates that ensembles are made of: mean weights over fits and outputs."""
        found = []
        for entry in self.experiment.models:
            weights = [record["weight"] for record in self.of(entry) if record.get("weight")]
            if all(len(weight) == 1 for weight in weights):
                continue
            total: dict[str, float] = {}
            for weight in weights:
                for name, shares in weight.items():
                    total[name] = total.get(name, 0.0) + statistics.fmean(shares) / len(weights)
            kept = sorted(total.items(), key=lambda item: -item[1])
            parts = ", ".join(f"{name} {100 * share:.0f} %" for name, share in kept)
            n_fits = "1 fit" if len(weights) == 1 else f"{len(weights)} fits"
            found.append(f"{entry.label} is made of {parts} (mean weights of {n_fits}).")
        return found

    def mixture(self) -> list[str]:
        """A remark where the rows come from several versions of the code."""
        n_sources = len(self.sources())
        if n_sources < 2:
            return []
        return [
            f"Computed with {n_sources} versions of the code, named in each record. --fresh computes "
            "again what another version than the present one computed."
        ]

    def troubles(self) -> list[str]:
        """Models that are not available, failed, or predicted no number, and why."""
        found: dict[str, list[str]] = {}
        for record in self.records:
            where = f"{record['case']}, seed {record['seed']}"
            if record["status"] != DONE:
                reason = " ".join((record["reason"] or "").split())
                line = f"{record['model']}: {record['status']}: {reason}"
                found.setdefault(line, []).append(where)
            elif any(row["nmse"] is None for row in record["rows"]):
                line = f"{record['model']}: predicted something that is not a number"
                found.setdefault(line, []).append(where)
        return [
            f"{line} ({places[0]}{f', and {len(places) - 1} more' if places[1:] else ''})"
            for line, places in found.items()
        ]

    def remarks(self) -> list[str]:
        """Remarks above the table, most important first."""
        warning = self.experiment.warning
        quick = "Quick run: the models are not fully trained." if self.is_quick else ""
        limit = "" if self.budget is None else f"At most {self.budget:g} s for each fit {_LIMITED}"
        return [line for line in (warning, quick, limit) if line]

    def content(self) -> dict[str, Any]:
        """The table and all records as JSON."""
        experiment = self.experiment
        rows = []
        for entry in experiment.models:
            cells = {}
            for column in experiment.columns:
                ours, paper = self.summary(entry, column), experiment.published(entry, column)
                cells[column.label] = {
                    "ours": None if ours is None else asdict(ours),
                    "paper": None if paper is None else asdict(paper),
                }
            rows.append(
                {
                    "model": entry.label,
                    "paper_row": entry.paper,
                    "done": self.done(entry),
                    "seeds": self.seeds(entry),
                    "seconds_to_fit": self.seconds(entry),
                    "scores": cells,
                }
            )
        return {
            "experiment": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "remarks": self.remarks(),
            "notes": list(experiment.notes),
            "troubles": self.troubles(),
            "sources": self.sources(),
            "models": rows,
            "tasks": list(self.records),
        }

    def _value(self, entry: Entry, column: Column, seed: int) -> float | None:
        values: list[float | None] = []
        for case in column.cases:
            record = self._record.get((case, entry.label, seed))
            if record is None or record["status"] != DONE:
                return None
            values += [
                row[column.metric]
                for row in record["rows"]
                if row["split"] == column.part
                and (not column.outputs or row["output"] in column.outputs)
            ]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    def of(self, entry: Entry) -> list[Record]:
        """Records of one model."""
        return [record for record in self.records if record["model"] == entry.label]

    @cached_property
    def _record(self) -> Mapping[tuple[str, str, int], Record]:
        return {(item["case"], item["model"], item["seed"]): item for item in self.records}
