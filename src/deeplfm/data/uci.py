"""Regression tables of the UCI repository, in the three folds that deep Gaussian processes use."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from deeplfm.data.places import (
    FOLDER,
    File,
    checked,
    data_cache,
    find,
    import_extra,
    not_obtained,
)
from deeplfm.errors import ConfigError, InputError

UCI = "https://archive.ics.uci.edu/static/public"


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of a table, standardised by its training rows.

    Attributes:
        inputs: names of the inputs.
        target: name of the target.
        x_train: inputs to train on.
        y_train: targets to train on.
        x_test: inputs to test on.
        y_test: targets to test on.
        x_mean: mean of the inputs in their own units.
        x_std: their standard deviation.
        y_mean: mean of the target in its own unit.
        y_std: its standard deviation; an error times it is in that unit.
    """

    inputs: tuple[str, ...]
    target: str
    x_train: Float64[ndarray, "N P"]
    y_train: Float64[ndarray, "N 1"]
    x_test: Float64[ndarray, "n P"]
    y_test: Float64[ndarray, "n 1"]
    x_mean: Float64[ndarray, " P"]
    x_std: Float64[ndarray, " P"]
    y_mean: float
    y_std: float


@dataclass(frozen=True)
class Table:
    """A table of the repository."""

    name: str
    path: str
    inputs: tuple[str, ...]
    target: str
    arrange: Callable[[Float64[ndarray, "N C"]], Float64[ndarray, "N C"]]
    sha256: str
    order: Callable[[], Int64[ndarray, " N"]]
    n_test: tuple[int, ...]
    folds: tuple[File, ...]

    @property
    def file(self) -> File:
        """The table as it is kept in the cache."""
        return File(f"{self.name}.csv")


def load_fold(table: Table, fold: int = 1) -> Fold:
    """One of the three folds, from its own file or made again from the table."""
    if fold not in (1, 2, 3):
        raise ConfigError(f"fold: {fold!r} found. Give 1, 2 or 3.")
    file = table.folds[fold - 1]
    path = find(file)
    if path is None:
        return _split(table, fold, _obtain(table)[1])
    with np.load(checked(path, file), allow_pickle=False) as arrays:
        return Fold(
            inputs=table.inputs,
            target=table.target,
            x_train=arrays["Xtrain"],
            y_train=arrays["ytrain"],
            x_test=arrays["Xtest"],
            y_test=arrays["ytest"],
            x_mean=arrays["x_mean"],
            x_std=arrays["x_std"],
            y_mean=float(arrays["y_mean"]),
            y_std=float(arrays["y_std"]),
        )


def fetch_folds(table: Table) -> list[Path]:
    """Files of all folds, or else of the table they are made from."""
    paths = [find(file) for file in table.folds]
    if None in paths:
        return [_obtain(table)[0]]
    return [checked(path, file) for path, file in zip(paths, table.folds, strict=True) if path]


def _obtain(table: Table) -> tuple[Path, Float64[ndarray, "N C"]]:
    """The table as CSV, and its values; downloaded if it is not in the user's folder or the cache."""
    found = find(table.file)
    if found is not None:
        return found, _values(found, table)
    from deeplfm.data.tables import read_table, write_table

    url = f"{UCI}/{table.path}"
    otherwise = f"set {FOLDER} to a folder with {table.file.name}, the table of {url}"
    pooch = import_extra("pooch", table.name, otherwise)
    pooch.get_logger().setLevel("WARNING")
    with tempfile.TemporaryDirectory(prefix="deeplfm-") as folder:
        try:
            download = pooch.retrieve(url, known_hash=None, fname=table.file.name, path=folder)
            path = _unpacked(Path(download))
            values = _values(path, table)  # what is not the table stays out of the cache
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise not_obtained(table.name, error, otherwise) from error
        target = data_cache() / table.file.name
        write_table(read_table(path), target, index=False)
    return target, values


def _unpacked(path: Path) -> Path:
    """The CSV file of an archive, or the file itself if it is none."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
        return Path(archive.extract(names[0], path.parent)) if names else path


def _values(path: Path, table: Table) -> Float64[ndarray, "N C"]:
    """The columns that the folds are cut from, if they are those that are known."""
    from deeplfm.data.tables import numeric_column, read_table

    frame = read_table(path)
    names = (*table.inputs, table.target)
    values = np.stack([numeric_column(frame, name, path) for name in names], axis=1)
    arranged = np.ascontiguousarray(table.arrange(values), dtype="<f8")
    found = hashlib.sha256(arranged.tobytes()).hexdigest()
    if found != table.sha256:
        raise InputError(
            f"{path}: {len(values)} rows that are not the table of data set {table.name} (sha256 of "
            f"the values {found[:12]}… found, {table.sha256[:12]}… expected). Remove the file, and "
            f"take the table from {UCI}/{table.path}."
        )
    return arranged


def _split(table: Table, fold: int, values: Float64[ndarray, "N C"]) -> Fold:
    order, first = table.order(), sum(table.n_test[: fold - 1])
    test = order[first : first + table.n_test[fold - 1]]
    train = np.concatenate([order[:first], order[first + len(test) :]])
    mean, std = values[train].mean(axis=0), values[train].std(axis=0, ddof=1)
    standard = (values - mean) / std
    return Fold(
        table.inputs,
        table.target,
        x_train=standard[train, :-1],
        y_train=standard[train, -1:],
        x_test=standard[test, :-1],
        y_test=standard[test, -1:],
        x_mean=mean[:-1],
        x_std=std[:-1],
        y_mean=float(mean[-1]),
        y_std=float(std[-1]),
    )
