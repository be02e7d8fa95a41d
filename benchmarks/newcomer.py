r"""Twelve jobs of a newcomer, each done as the README says, beside the usual tool for it.

    python benchmarks/newcomer.py                 # those without a record in results/newcomer.json
    python benchmarks/newcomer.py --only stars --again
    python benchmarks/newcomer.py --page          # docs/newcomer.md from the records

Each job is one function of what a user writes (its lines are counted) and one of the peer. CPU seconds
are those of this process and its children on one thread, with imports on the command line. A record is
saved as soon as its job is done. Needs the extras ``benchmark``, ``holidays`` and ``sktime``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import newcomer_code as code
import newcomer_data as data
import newcomer_peers as peers
import numpy as np
import pandas as pd
from newcomer_measure import (
    Jobs,
    Record,
    beside,
    listing,
    measured,
    n_lines,
    record,
    table,
)

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results/newcomer.json", HERE.parent / "docs/newcomer.md"


def co2() -> Record:
    """Weekly CO₂, two years ahead."""
    frame = data.weekly_co2()
    rest = {"data": "real, 2284 weeks", "peer": "Prophet", "unit": "MAE in ppm, coverage"}
    return beside(code.forecast_co2, peers.prophet, frame[:-104], frame[-104:], "co2", **rest)


def air() -> Record:
    """Raw air quality: −200 and decimal commas."""
    with tempfile.TemporaryDirectory() as folder:
        clean = data.air_quality_file(Path(folder) / "air.csv")
        ours = measured(code.forecast_air, folder)
        found = pd.read_csv(f"{folder}/ahead.csv", sep=None, engine="python", decimal=".")
        past, later = clean[:-168], clean[-168:]
        theirs = measured(peers.seasonal_naive, past, later)
    names = [name for name in clean if name != "NMHC(GT)"]  # its sensor is gone

    def score(frame: pd.DataFrame) -> str:
        scale = past.diff(24).abs().mean()
        off = (frame[names].set_axis(later.index) - later[names]).abs().mean() / scale[names]
        low, high = (
            frame[[f"{n}_{end}" for n in names]].set_axis(names, axis=1).set_axis(later.index)
            for end in ("low", "high")
        )
        inside = ((later[names] >= low) & (later[names] <= high)).to_numpy().mean()
        return f"{off.mean():.3g}, {inside:.0%}"

    rest = {
        "data": "simulated, 9357 hours × 13",
        "peer": "same hour of the week before, gaps known",
    }
    rest["unit"] = "MASE over a week, coverage"
    return record(ours, score(found), n_lines(code.forecast_air), theirs, score(theirs[0]), **rest)


def twelve() -> Record:
    """Twelve series in long form."""
    frame = data.twelve_macro_series()
    later = frame.groupby("unique_id", sort=False).tail(8)
    past = frame.drop(later.index)
    mine, theirs = (measured(f, past, later) for f in (code.forecast_twelve, peers.auto_ets))

    def score(found: pd.DataFrame) -> str:
        joined = later.merge(found, on=["unique_id", "ds"], suffixes=("_true", ""))
        steps = past.groupby("unique_id")["y"].apply(lambda y: y.diff(4).abs().mean())
        off = (joined["y"] - joined["y_true"]).abs() / joined["unique_id"].map(steps)
        inside = (joined["y_true"] >= joined["y_low"]) & (joined["y_true"] <= joined["y_high"])
        return f"{off.groupby(joined['unique_id']).mean().mean():.3g}, {inside.mean():.0%}"

    rest = {
        "data": "real, 12 × 195 quarters",
        "peer": "AutoETS",
        "unit": "MASE of 8 quarters, coverage",
    }
    scores = score(mine[0]), score(theirs[0])
    return record(mine, scores[0], n_lines(code.forecast_twelve), theirs, scores[1], **rest)


def stars() -> Record:
    """Irregular light curve."""
    frame = data.light_curve()
    rest = {"data": "simulated, 140 nights", "peer": "periodic GP of scikit-learn"}
    rest["unit"] = "MAE in magnitudes, coverage"
    # The interval of both is for a value without the error of measurement, so the clean law is the truth.
    phase = 2 * np.pi * (frame["mjd"] - 58000) / 3.7
    clean = frame.assign(magnitude=12.3 + 0.25 * np.sin(phase) + 0.1 * np.sin(2 * phase + 0.7))
    return beside(
        code.forecast_star, peers.periodic_gp, frame[:140], clean[140:], "magnitude", **rest
    )


def covariates() -> Record:
    """Growth with four covariates."""
    frame = data.us_change()
    rest = {"data": "real, 171 quarters", "peer": "AutoARIMA with the covariates"}
    rest["unit"] = "MAE in points, coverage"
    return beside(
        code.forecast_growth, peers.auto_arima, frame[:-16], frame[-16:], "Consumption", **rest
    )


def shop() -> Record:
    """Two years of days with holidays."""
    frame = data.daily_shop()
    rest = {"data": "simulated, 744 days", "peer": "Prophet with holidays", "unit": "MAE, coverage"}
    return beside(code.forecast_shop, peers.prophet, frame[:-28], frame[-28:], "y", **rest)


def load() -> Record:
    """46 000 rows."""
    frame = data.long_load()
    rest = {"data": "simulated, 46 000 hours", "peer": "MSTL with AutoETS", "unit": "MAE, coverage"}
    return beside(code.forecast_load, peers.mstl, frame[:-168], frame[-168:], "y", **rest)


def diabetes() -> Record:
    """Diabetes with GridSearchCV."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import KFold

    X, y = load_diabetes(return_X_y=True)
    folds = [KFold(5, shuffle=True, random_state=seed) for seed in range(5)]
    mine = measured(lambda: [code.search_diabetes(X, y, fold) for fold in folds])
    theirs = measured(lambda: [peers.ridge(X, y, fold) for fold in folds])
    scores = [f"{np.mean(s[0]):.3f} ({min(s[0]):.3f}–{max(s[0]):.3f})" for s in (mine, theirs)]
    rest = {
        "data": "real, 442 rows × 10, 5 shuffles",
        "peer": "ridge",
        "unit": "R² of 5 folds (range)",
    }
    return record(mine, scores[0], n_lines(code.search_diabetes), theirs, scores[1], **rest)


def forces() -> Record:
    """Recover the force of the example."""
    held, spent = [], 0.0
    for seed in range(5):
        t, outputs = data.three_sensors(seed)
        found, seconds = measured(code.recover, t, outputs)
        unit, zero = np.polyfit(found.mean, data.force(t), 1)
        off = np.abs(zero + unit * found.mean - data.force(t)) / (abs(unit) * found.std)
        held.append(float((off < 1.96).mean()))
        spent += seconds
    score = ", ".join(f"{share:.0%}" for share in held)
    rest = {
        "data": "simulated, 150 times × 3, 5 seeds",
        "peer": "–",
        "unit": "force inside its 95 % band",
    }
    return {"lines": n_lines(code.recover), "cpu": round(spent / 5, 2), "score": score, **rest}


def report() -> Record:
    """Report of a model, with its scores."""
    frame = data.daily_shop()
    with tempfile.TemporaryDirectory() as folder:
        frame[:-28].to_csv(f"{folder}/past.csv", index=False)
        frame[-28:].to_csv(f"{folder}/later.csv", index=False)
        printed, seconds = measured(code.report_shop, folder)
        page = Path(f"{folder}/r.html").read_text()
    rmse = json.loads(printed[printed.index("{") :])["scores"]["y"]["rmse"]
    agrees = f"{rmse:.3g}" in page
    score = (
        f"{len(page.encode()) / 1e6:.1f} MB, RMSE {rmse:.3g} in both: {'yes' if agrees else 'NO'}"
    )
    rest = {"data": "simulated, 744 days", "peer": "–", "unit": "size; same score as the terminal"}
    return {"lines": n_lines(code.report_shop), "cpu": round(seconds, 2), "score": score, **rest}


def notebook() -> Record:
    """Notebook: fit, figure, table."""
    import nbformat
    from nbclient import NotebookClient

    first = f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport newcomer_data as data\n"
    made = nbformat.v4.new_notebook()
    cells = [first + "frame = data.weekly_co2()[-520:]", *code.NOTEBOOK]
    made.cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    _, seconds = measured(NotebookClient(made, timeout=600, kernel_name="python3").execute)
    kinds = {kind for cell in made.cells for out in cell.outputs for kind in out.get("data", {})}
    errors = sum(
        out.output_type == "stream" and out.name == "stderr"
        for c in made.cells
        for out in c.outputs
    )
    shown = ("image/png" in kinds) + ("text/html" in kinds)
    score = f"{shown} of 2 kinds of output, {errors} cells with lines on stderr"
    lines = sum(len(cell.strip().splitlines()) for cell in code.NOTEBOOK)
    rest = {"data": "real, 520 weeks", "peer": "–", "unit": "figure and tables shown"}
    return {"lines": lines, "cpu": round(seconds, 2), "score": score, **rest}


def online() -> Record:
    """Update with 52 weeks, one by one."""
    frame = data.weekly_co2().dropna()[-572:]
    rest = {"data": "real, 520 + 52 weeks", "peer": "Holt–Winters, fitted again each week"}
    rest["unit"] = "MAE in ppm one week ahead, coverage"
    return beside(code.update_weekly, peers.refitted, frame[:-52], frame[-52:], "co2", **rest)


JOBS: Jobs = {
    co2: code.forecast_co2,
    air: code.forecast_air,
    twelve: code.forecast_twelve,
    stars: code.forecast_star,
    covariates: code.forecast_growth,
    shop: code.forecast_shop,
    load: code.forecast_load,
    diabetes: code.search_diabetes,
    forces: code.recover,
    report: code.report_shop,
    notebook: code.NOTEBOOK,
    online: code.update_weekly,
}


def main() -> None:
    """Run the jobs, save their records, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[job.__name__ for job in JOBS])
    parser.add_argument("--again", action="store_true", help="also those that have a record")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation")
    chosen = parser.parse_args()
    records: dict[str, Record] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for job in JOBS:
        name = job.__name__
        if not chosen.page and name in chosen.only and (chosen.again or name not in records):
            records[name] = job()
            RESULTS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
            print(name, records[name], flush=True)
    print(table(JOBS, records))
    if chosen.page:
        text = PAGE.read_text()
        begin, end = (text.index(mark) for mark in ("<!-- table -->", "<!-- end -->"))
        filled = f"<!-- table -->\n\n{table(JOBS, records)}\n\n{listing(JOBS)}\n\n"
        PAGE.write_text(text[:begin] + filled + text[end:])


if __name__ == "__main__":
    main()
