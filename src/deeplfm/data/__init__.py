"""Data: tables from and to files, known data sets, simulated systems, tables larger than memory.

Names are imported when they are first used: completion in a shell asks for the data sets alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deeplfm.data.catalogue import Dataset, available, fetch, load
    from deeplfm.data.numbers import numeric_column
    from deeplfm.data.parquet import ParquetTable, open_parquet
    from deeplfm.data.tables import read_table, write_table
    from deeplfm.data.uci import Fold

_HOMES = {
    "Dataset": "catalogue",
    "Fold": "uci",
    "ParquetTable": "parquet",
    "available": "catalogue",
    "fetch": "catalogue",
    "load": "catalogue",
    "numeric_column": "numbers",
    "open_parquet": "parquet",
    "read_table": "tables",
    "write_table": "tables",
}

__all__ = [
    "Dataset",
    "Fold",
    "ParquetTable",
    "available",
    "fetch",
    "load",
    "numeric_column",
    "open_parquet",
    "read_table",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"deeplfm.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'deeplfm.data' has no attribute {name!r}")
