"""Recordings of PhysioNet, read with wfdb and kept as CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.data.places import (
    FOLDER,
    File,
    checked,
    data_cache,
    find,
    import_extra,
    not_obtained,
    sealed,
)
from deeplfm.errors import ConfigError

MIMIC_FILE = File(
    "mimic_037_50hz_5000.csv", "f9c8527df44a9bc74a2da529aa0064b24ed032e75e8b7f1d7ecc677d8925a2ab"
)

MIMIC_DOWNLOAD = File("mimic_037_physionet.csv")
_MIMIC_SEGMENT, _MIMIC_FOLDER = "03700181", "mimicdb/1.0.0/037"
_MIMIC_SECONDS, _MIMIC_FRAMES, _MIMIC_RATE = 100, 125, 50  # frames per second, and rows
_MIMIC_SIGNALS = (("ABP_mmHg", "ABP", 4), ("ECG_mV", "MCL1", 5), ("RESP_au", "RESP", 5))
_CHARIS_FOLDER = "charisdb/1.0.0"
_CHARIS_RECORD = re.compile(r"charis(?:[1-9]|1[0-3])")


def charis_file(record: str = "charis6", first: int = 0, length: int = 1000) -> File:
    """The name under which a segment of a recording is kept."""
    if not _CHARIS_RECORD.fullmatch(record):
        raise ConfigError(f"record: {record!r} found. Give one of charis1 to charis13.")
    for name, value, least in (("first", first, 0), ("length", length, 1)):
        if not isinstance(value, int) or value < least:
            raise ConfigError(f"{name}: {value!r} found. Give a whole number of at least {least}.")
    return File(f"{record}_{first}_{length}.csv")


def fetch_charis(record: str = "charis6", first: int = 0, length: int = 1000) -> list[Path]:
    """A segment of one CHARIS patient: arterial pressure, ECG and intracranial pressure at 50 Hz.

    Only these rows are downloaded, unless the record is in the user's folder.
    """
    file = charis_file(record, first, length)
    found = find(file)
    if found is not None:
        return [checked(found, file)]
    segment = _read("charis", file, record, _CHARIS_FOLDER, first, first + length)
    columns = {"time_s": (first + np.arange(length)) / segment.fs}
    for name, unit, values in zip(segment.sig_name, segment.units, segment.e_p_signal, strict=True):
        columns[f"{name}_{unit}"] = values
    return [_keep(columns, file)]


def fetch_mimic() -> list[Path]:
    """The first 100 seconds of segment 03700181 of MIMIC record 037, brought to 50 Hz."""
    for file in (MIMIC_FILE, MIMIC_DOWNLOAD):
        found = find(file)
        if found is not None:
            return [checked(found, file)]
    from scipy.signal import resample_poly

    segment = _read(
        "mimic-037", MIMIC_FILE, _MIMIC_SEGMENT, _MIMIC_FOLDER, 0, _MIMIC_SECONDS * _MIMIC_FRAMES
    )
    n_rows = _MIMIC_SECONDS * _MIMIC_RATE
    columns = {"time_s": np.arange(n_rows) / _MIMIC_RATE}
    for name, signal, digits in _MIMIC_SIGNALS:
        values = segment.e_p_signal[segment.sig_name.index(signal)]
        # The rates are different multiples of 50 Hz; edges go on along a line.
        resampled = resample_poly(values, n_rows, len(values), padtype="line")
        columns[name] = np.round(resampled, digits)
    return [_keep(columns, MIMIC_DOWNLOAD)]


def _read(dataset: str, file: File, record: str, folder: str, first: int, last: int) -> Any:
    """Frames of a record, each signal at its own rate, from the user's folder or from PhysioNet."""
    otherwise = f"set {FOLDER} to a folder with {file.name}"
    wfdb = import_extra("wfdb", dataset, otherwise)
    header = find(File(f"{record}.hea"))
    place = {"record_name": record, "pn_dir": folder}
    if header is not None:
        place = {"record_name": str(header.with_suffix(""))}
    try:
        return wfdb.rdrecord(**place, sampfrom=first, sampto=last, smooth_frames=False)
    except (OSError, ValueError) as error:
        raise not_obtained(dataset, error, otherwise) from error


def _keep(columns: dict[str, Float64[ndarray, " N"]], file: File) -> Path:
    import pandas as pd

    from deeplfm.data.tables import write_table

    path = data_cache() / file.name
    write_table(pd.DataFrame(columns), path, index=False)
    return sealed(path)
