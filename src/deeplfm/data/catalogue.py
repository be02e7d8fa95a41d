"""The catalogue of data sets: descriptions, places and downloads."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from deeplfm.data.physionet import (
    MIMIC_DOWNLOAD,
    MIMIC_FILE,
    charis_file,
    fetch_charis,
    fetch_mimic,
)
from deeplfm.data.places import File, data_cache, find, user_folder
from deeplfm.data.simulated import toy_system
from deeplfm.data.uci import POWERPLANT, PROTEIN, Fold, Table, fetch_folds, load_fold
from deeplfm.errors import ConfigError, InputError
from deeplfm.io.files import write_whole

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Dataset:
    """A data set that deeplfm knows by name.

    Attributes:
        name: for :func:`load` and :func:`fetch`.
        summary: what it holds, in one line.
        licence: of the data.
        source: where it is from.
        files: as they may lie in the user's folder, with their checksums; none if it is built in.
        download: what a download leaves in the cache.
        loader: the data; its arguments are the options of :func:`load`.
        fetcher: paths of its files, downloaded if need be; its arguments are those of :func:`fetch`.
    """

    name: str
    summary: str
    licence: str
    source: str
    files: tuple[File, ...]
    download: File | None
    loader: Callable[..., pd.DataFrame | Fold]
    fetcher: Callable[..., list[Path]]

    def where(self) -> str:
        """Where it would be read from: ``built in``, a folder, the cache, or ``download``."""
        if self.download is None:
            return "built in"
        for files in (self.files, (self.download,)):
            paths = [path for path in map(find, files) if path is not None]
            if len(paths) == len(files):
                is_users = paths[0].parent == user_folder()
                return f"{'folder' if is_users else 'cache'} {paths[0].parent}"
        return "download"


def available() -> list[Dataset]:
    """All known data sets.

    >>> [entry.name for entry in available()]
    ['toy', 'charis', 'mimic-037', 'powerplant', 'protein']
    """
    return list(_DATASETS.values())


def fetch(name: str, folder: str | Path | None = None, **options: Any) -> list[Path]:
    """Paths of the files of a data set, made or downloaded if need be, and checked.

    Files are looked for in the folder that ``DEEPLFM_DATA`` names, then in the cache.

    Args:
        name: one of :func:`available`.
        folder: where to put copies; ``None`` leaves the files where they are found.
        options: toy: ``variant``, ``seed``; charis: ``record``, ``first``, ``length``.
    """
    dataset = _find(name)
    paths = dataset.fetcher(**_checked(dataset.fetcher, name, options))
    if folder is None:
        return paths
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [_copied(path, Path(folder) / path.name) for path in paths]
    except OSError as error:
        raise InputError(
            f"data set {name}: cannot be written to {folder} ({error.strerror or error}). "
            "Give a folder in which you may create files."
        ) from error


@overload
def load(name: Literal["toy", "charis", "mimic-037"], **options: Any) -> pd.DataFrame: ...
@overload
def load(name: Literal["powerplant", "protein"], **options: Any) -> Fold: ...
@overload
def load(name: str, **options: Any) -> pd.DataFrame | Fold: ...
def load(name: str, **options: Any) -> pd.DataFrame | Fold:
    """A data set: a series as a table with its times, or one fold of a regression table.

    Args:
        name: one of :func:`available`.
        options: toy: ``variant``, ``seed``; charis: ``record``, ``first``, ``length``; powerplant
            and protein: ``fold``.

    >>> load("toy", seed=1).columns.tolist()
    ['time', 'value', 'split']
    """
    dataset = _find(name)
    return dataset.loader(**_checked(dataset.loader, name, options))


def _find(name: str) -> Dataset:
    if name not in _DATASETS:
        raise ConfigError(f"data set {name!r} is not known. Choose from {', '.join(_DATASETS)}.")
    return _DATASETS[name]


def _checked(function: Callable[..., Any], name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options, if the function takes all of them."""
    known = list(inspect.signature(function).parameters)
    unknown = [repr(option) for option in options if option not in known]
    if unknown:
        choice = f"Choose from {', '.join(known)}." if known else "It has none."
        raise ConfigError(f"data set {name}: no option is named {', '.join(unknown)}. {choice}")
    return options


def _copied(path: Path, target: Path) -> Path:
    if not (target.exists() and target.samefile(path)):
        write_whole(target, partial(shutil.copyfile, path))
    return target


def _load_toy(variant: str = "published", seed: int = 0) -> pd.DataFrame:
    """The toy; the column ``split`` is train, interpolation or extrapolation."""
    import pandas as pd

    toy = toy_system(variant, seed)
    frame = pd.DataFrame({"time": toy.time, "value": toy.value, "split": "train"})
    frame.loc[toy.interpolation, "split"] = "interpolation"
    frame.loc[toy.extrapolation, "split"] = "extrapolation"
    return frame


def _fetch_toy(variant: str = "published", seed: int = 0) -> list[Path]:
    from deeplfm.data.tables import write_table

    path = data_cache() / f"toy_{variant}_{seed}.csv"
    write_table(_load_toy(variant, seed), path, index=False)
    return [path]


def _load_charis(record: str = "charis6", first: int = 0, length: int = 1000) -> pd.DataFrame:
    from deeplfm.data.tables import read_table

    return read_table(fetch_charis(record, first, length)[0])


def _load_mimic() -> pd.DataFrame:
    from deeplfm.data.tables import read_table

    return read_table(fetch_mimic()[0])


def _uci(table: Table, number: int, summary: str) -> Dataset:
    return Dataset(
        name=table.name,
        summary=summary,
        licence="CC BY 4.0",
        source=f"https://archive.ics.uci.edu/dataset/{number}",
        files=table.folds,
        download=table.file,
        loader=partial(load_fold, table),
        fetcher=partial(fetch_folds, table),
    )


_DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="toy",
            summary="A wave through two linear systems: 750 rows with a gap and a tail to forecast.",
            licence="MIT, as deeplfm",
            source="simulated, as in the paper's extrapolation figure",
            files=(),
            download=None,
            loader=_load_toy,
            fetcher=_fetch_toy,
        ),
        Dataset(
            name="charis",
            summary="Arterial pressure, ECG and intracranial pressure of 13 patients, 50 Hz.",
            licence="ODC-By 1.0",
            source="https://physionet.org/content/charisdb/1.0.0/",
            files=(charis_file(),),
            download=charis_file(),
            loader=_load_charis,
            fetcher=fetch_charis,
        ),
        Dataset(
            name="mimic-037",
            summary="Arterial pressure, ECG and respiration of one patient: 5000 rows, 50 Hz. "
            "A substitute for charis: results on it are not results on charis.",
            licence="ODC-By 1.0, as far as known",
            source="https://physionet.org/content/mimicdb/1.0.0/",
            files=(MIMIC_FILE,),
            download=MIMIC_DOWNLOAD,
            loader=_load_mimic,
            fetcher=fetch_mimic,
        ),
        _uci(POWERPLANT, 294, "Combined cycle power plant: 9568 rows, 4 inputs, in three folds."),
        _uci(
            PROTEIN, 265, "Protein tertiary structure (CASP): 45730 rows, 9 inputs, in three folds."
        ),
    )
}
