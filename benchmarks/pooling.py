"""Short series: a prior of the parameters that a panel learns, against each series by itself.

Each series of a set of the benchmark is cut to its last 24 to 48 known rows; those of one frequency are
one panel. Prints, for each frequency, the mean log density of the later values (in units of the spread
of the known ones, so that series count equally), CRPS and coverage, and the mean difference with its
standard error. The results of each series are appended to a file; a run that was ended is continued.

    DEEPLFM_DATA=... python benchmarks/pooling.py --set choose -o pooling.csv
    python benchmarks/pooling.py --static 10 -o static.csv  # new series, with and without features
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from deeplfm import DeepLFMForecaster
from deeplfm.experiments.forecasting.series import load_series

FREQUENCIES = ("monthly", "quarterly", "weekly", "daily")
FEWEST, MOST = 24, 48
_NAMES = ("alone", "pooled")


def panel_of(name: str, frequency: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Known rows, later rows, and the spread of the known ones of each series."""
    known, later, spread = [], [], {}
    for number, series in enumerate(load_series(name)):
        if series.frequency != frequency:
            continue
        n_rows = FEWEST + (7 * number) % (MOST - FEWEST + 1)
        values = series.known[-n_rows:]
        if np.isfinite(values).sum() < FEWEST or np.nanstd(values) == 0:
            continue
        whole = series.frame.index
        index = pd.date_range(whole[0], periods=len(values) + len(series.later), freq=whole.freq)
        y = np.concatenate([values, series.later])
        frame = pd.DataFrame({"unique_id": series.name, "ds": index, "y": y})
        known.append(frame[: len(values)])
        later.append(frame[len(values) :])
        spread[series.name] = float(np.nanstd(values))
    return pd.concat(known), pd.concat(later), pd.Series(spread)


def run(name: str, frequency: str, is_pooled: bool) -> pd.DataFrame:
    known, later, spread = panel_of(name, frequency)
    model = DeepLFMForecaster(effort="fast", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(known, pooled=is_pooled)
        scores = model.evaluate(later).set_index("unique_id")
    scores["log_density"] = -scores["mnll"] + np.log(spread)
    scores["scaled_crps"] = scores["crps"] / spread
    for sum_name, prior in (model.prior_ or {}).items():
        print(frequency, sum_name, prior)
    columns = ["log_density", "scaled_crps", "coverage95"]
    return scores[columns].assign(frequency=frequency, pooling=_NAMES[is_pooled]).reset_index()


def simulated(n_series: int, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Series between noise around a constant and a random walk, and features of which kind matters."""
    found = []
    for number in range(n_series):
        is_moving = rng.uniform() < 0.5
        step, noise = (0.95, 0.05) if is_moving else (0.05, 0.95)
        y = 10 + step * rng.standard_normal(n_rows).cumsum() + noise * rng.standard_normal(n_rows)
        index = pd.date_range("2020-01-01", periods=n_rows, freq="MS")
        known = {"unique_id": number, "ds": index, "y": y, "kind": f"moving {is_moving}"}
        found.append(
            pd.DataFrame(known).assign(other=rng.choice(["a", "b", "c"]), size=rng.normal())
        )
    return pd.concat(found, ignore_index=True)


def static_gains(seed: int, n_later: int = 6) -> dict[str, float]:
    """Mean log density (Gaussian) of the last rows of 60 new series by each set of features."""
    rng = np.random.default_rng(seed)
    old, new = simulated(60, 24, rng), simulated(60, 12 + n_later, rng)
    is_later = new.groupby("unique_id").cumcount() >= 12
    gains: dict[str, float] = {}
    for label, names in {"none": [], "kind": ["kind"], "noise": ["other", "size"]}.items():
        rows = [
            data[["unique_id", *names]].drop_duplicates("unique_id") if names else None
            for data in (old, new)
        ]
        columns = ["unique_id", "ds", "y"]
        model = DeepLFMForecaster("trend + level", progress=False)
        model.fit(old[columns], pooled=True, static=rows[0])
        found = model.forecast_new(new.loc[~is_later, columns], n_later, static=rows[1])
        later = new.loc[is_later, "y"].to_numpy()
        gains[label] = float(norm.logpdf(later, found["y"], found["y_std"]).mean())
    return gains


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", default="choose")
    parser.add_argument("--frequencies", default=",".join(FREQUENCIES))
    parser.add_argument("-o", "--out", type=Path, default=Path("pooling.csv"))
    parser.add_argument("--static", type=int, help="simulated panels with features of series")
    arguments = parser.parse_args()
    if arguments.static:
        table = pd.DataFrame([static_gains(seed) for seed in range(arguments.static)])
        table.to_csv(arguments.out, index=False)
        gain = table.sub(table["none"], axis=0)
        print(table.round(3).to_string(), gain.agg(["mean", "sem"]).round(4).to_string(), sep="\n")
        return
    for frequency in arguments.frequencies.split(","):
        for is_pooled in (False, True):
            done = pd.read_csv(arguments.out) if arguments.out.exists() else pd.DataFrame()
            if (
                len(done)
                and ((done.frequency == frequency) & (done.pooling == _NAMES[is_pooled])).any()
            ):
                continue
            found = run(arguments.set, frequency, is_pooled)
            found.to_csv(arguments.out, mode="a", header=not arguments.out.exists(), index=False)
    print(table_of(pd.read_csv(arguments.out)).to_string())


def table_of(found: pd.DataFrame) -> pd.DataFrame:
    """Means of both, and the difference of the log densities with its standard error."""
    wide = found.pivot_table(index=["frequency", "unique_id"], columns="pooling", sort=False)
    wide = wide.dropna()
    rows = {}
    groups = [(key, part) for key, part in wide.groupby(level=0, sort=False)]
    for frequency, part in [*groups, ("all", wide)]:
        gain = part["log_density"]["pooled"] - part["log_density"]["alone"]
        row = {"series": len(part), "gain": gain.mean()}
        row |= {"standard error": gain.std() / np.sqrt(len(part)), "better": (gain > 0).mean()}
        for score in ("log_density", "scaled_crps", "coverage95"):
            row |= {f"{score} {kind}": part[score][kind].mean() for kind in _NAMES}
        rows[frequency] = row
    return pd.DataFrame(rows).T


if __name__ == "__main__":
    main()
