"""Regression tables of the UCI repository, in the three folds of Cutajar et al. (2017)."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
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


_N_POWERPLANT, _N_PROTEIN, _PROTEIN_SEED = 9568, 45730, 123786
_STATE_WORDS = 624  # of the Mersenne Twister

# Where the test rows of the three folds are among the rows of the power plant in sorted order.
_POWERPLANT_TESTS = """
3155 4186 2714 1491 6488 8125 7450 5586 4205 2400 2605 8651 2072 325 2095 5260 9016 7295 7223 8683
4753 1034 8858 1065 5190 1833 5073 4546 1422 7426 7870 5397 8127 8155 6048 6091 828 7682 4789 5704
7243 1808 7298 5161 5954 8935 702 5643 8973 7140 6302 5637 3960 1501 9505 2116 6359 2947 6374 1049
8781 6171 8322 272 2598 1204 6828 5995 7152 340 644 1251 321 4248 8002 208 301 2045 3459 8105 9129
220 7428 3565 3354 6817 3698 652 6657 7040 4234 5644 6335 8085 2601 8315 3129 8071 6901 7366 8823
5287 8108 2557 8509 7999 5764 5117 6267 6486 3865 2480 9115 1231 2809 5284 1055 5027 5006 5788
6025 6324 6822 438 3763 6435 385 7987 2391 2940 3989 5463 8822 1907 1902 8997 8763 2401 5429 7386
7625 7087 236 654 4293 7494 3997 9008 2590 8498 6712 6234 8617 3392 3894 7201 2615 7931 8311 3750
6726 8619 8345 8793 4183 4621 613 1684 4461 4597 8537 7606 8364 965 718 2751 2106 2548 8182 103
2616 219 6223 911 9050 1628 5236 1559 1951 3151 6008 6077 4285 4073 6096 6245 2450 2169 8035 6779
7279 4735 1211 7265 3737 2511 8312 8887 7209 3165 7318 7211 1486 3367 9112 9383 2227 442 6715 7884
4460 3963 5098 5478 5880 4970 587 3612 5300 3185 2713 3507 3132 7958 950 8740 273 2646 4323 4788
3517 8630 7791 2249 7139 4393 9188 4868 6761 1633 8557 6908 988 2385 1894 7788 1844 4599 1751 6662
98 3102 1668 2709 4430 7726 5348 6577 7694 7202 6074 2723 1170 8584 5881 5066 2623 6675 5373 7444
5998 3105 1325 5438 3576 4161 1981 4717 485 4924 2181 8626 8792 8310 1019 7746
"""


def _sorted_rows(values: Float64[ndarray, "N C"]) -> Float64[ndarray, "N C"]:
    """Rows in the order of their first column, then of the second, and so on.

    Which order the rows had when the folds were made is not known; this one can be had again.
    """
    return values[np.lexsort(values.T[::-1])]


def _powerplant_order() -> Int64[ndarray, " N"]:
    tests = np.array(_POWERPLANT_TESTS.split(), dtype=np.int64)
    return np.concatenate([tests, np.setdiff1d(np.arange(_N_POWERPLANT), tests)])


def _with_rounded_f5(values: Float64[ndarray, "N C"]) -> Float64[ndarray, "N C"]:
    """The folds were cut from a copy of the table with ten digits of F5."""
    rounded = values.copy()
    rounded[:, 4] = [_ten_digits(value) for value in values[:, 4].tolist()]
    return rounded


def _ten_digits(value: float) -> float:
    number = Decimal(repr(value))
    return float(number.quantize(Decimal(1).scaleb(number.adjusted() - 9), ROUND_HALF_UP))


def _protein_order() -> Int64[ndarray, " N"]:
    """``set.seed(123786); sample(45730)`` of R before version 3.6, less one."""
    word, words = _PROTEIN_SEED, []
    for _ in range(50 + 1 + _STATE_WORDS):  # R drops the first 50, and one for its counter
        word = (69069 * word + 1) % 2**32
        words.append(word)
    twister = np.random.MT19937()
    key = np.array(words[-_STATE_WORDS:], dtype=np.uint32)
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _STATE_WORDS}}
    left, order = list(range(_N_PROTEIN)), []
    for uniform in (twister.random_raw(_N_PROTEIN) * 2.3283064365386963e-10).tolist():
        place = int(len(left) * uniform)
        order.append(left[place])
        left[place] = left[-1]
        left.pop()
    return np.array(order, dtype=np.int64)


def _fold_files(name: str, *digests: str) -> tuple[File, ...]:
    return tuple(File(f"{name}_fold{fold}.npz", digest) for fold, digest in enumerate(digests, 1))


POWERPLANT = Table(
    name="powerplant",
    path="294/data.csv",
    inputs=("AT", "V", "AP", "RH"),
    target="PE",
    arrange=_sorted_rows,
    sha256="de02023f4e7f10d6743e3b661e4b02f0459e8d190e83ea3ed50e0e4fb414da4b",
    order=_powerplant_order,
    n_test=(99, 99, 98),
    folds=_fold_files(
        "powerplant",
        "100f75b3b0790bc3aec172248bc87b061e088a6fe80eb635a4fba3e21bf67f33",
        "e7116694493c281207f5453e9c11e039916344617dbad6adad9e957bab7d2942",
        "166c1bbd2cd127c6cf9457ade4a21b2ed858bc26aef4f1ee665e67a6fc668a59",
    ),
)

PROTEIN = Table(
    name="protein",
    path="265/physicochemical+properties+of+protein+tertiary+structure.zip",
    inputs=tuple(f"F{number}" for number in range(1, 10)),
    target="RMSD",
    arrange=_with_rounded_f5,
    sha256="15ee1e702d680975fc1db02dd508dfe1e091329cb1dcc707e8890538c3c76889",
    order=_protein_order,
    n_test=(215, 215, 215),
    folds=_fold_files(
        "protein",
        "c4334340a1ee7fa29956e38680ffd9a2c143edb0ce334173b253b22046fc5b9a",
        "e5002e268bde541525c9b81f086bb80dacfadda8620c63353d7862baba0453eb",
        "ce7fdcc029e09d79a20e7e56f4bb49ea71e2a83b6f27eb49392ca70ddafbc870",
    ),
)
