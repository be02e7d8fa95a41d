"""``deeplfm update``: add new rows to a saved model without training."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from deeplfm.cli import panels
from deeplfm.cli.inputs import load_forecaster, read_like
from deeplfm.cli.options import (
    Data,
    Duplicates,
    FileOptions,
    Fitted,
    Overwrite,
    RunOptions,
    option,
)
from deeplfm.cli.outputs import Results, check_model_folder
from deeplfm.io.files import locked

EXAMPLES = (
    "deeplfm update vitals-model later.csv -o vitals-model-2",
    "deeplfm update vitals-model later.csv --overwrite",
)


def update(
    model: Fitted,
    data: Data,
    *,
    out: Annotated[
        Path | None,
        option("Results", "FOLDER", "Folder of the new model. Default: MODEL.", "--out", "-o"),
    ] = None,
    overwrite: Overwrite = False,
    duplicates: Annotated[
        Duplicates, option("Data", "", "Refuse rows with the same time, or average them.")
    ] = "refuse",
    file: FileOptions,
    run: RunOptions,
) -> None:
    """Add new rows to a model without training: its last layer is solved for all rows.

    Frequencies, scales, noise and calibration stay as they are; fit again when the scores of evaluate
    get worse. The model itself is replaced only with --overwrite.
    """
    folder = check_model_folder(out or model, "--out", overwrite)
    results = Results(run)
    # Under one lock, or two updates of one model at the same time would keep the rows of the last only.
    with locked(folder) if folder.is_dir() else nullcontext():
        forecaster = load_forecaster(model, may_be_panel=True)
        is_panel = forecaster.panel_ is not None
        before = 0 if is_panel else len(forecaster.training_)
        rows = (panels.read_long if is_panel else read_like)(forecaster, data, file)
        forecaster.update(rows, duplicates=str(duplicates))
        forecaster.save(folder)
    if is_panel:
        results.terminal.print(f"Updated series with {len(rows)} rows", f"Model: {folder}")
        results.print({"model": folder, "rows": len(rows)})
        return
    after, added = len(forecaster.training_), len(forecaster.training_) - before
    (last,) = forecaster.timeline_.texts(forecaster.training_.index[-1:])
    results.terminal.print(f"Added {added} rows: {after} rows until {last}", f"Model: {folder}")
    results.print({"model": folder, "rows": after, "added": added})
