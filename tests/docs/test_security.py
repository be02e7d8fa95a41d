"""The tables of SECURITY.md name every dependency and the limits of the code."""

import re
import tomllib
from pathlib import Path

from deeplfm.data import tables
from deeplfm.io import parts, storage

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
NOT_SHIPPED = ("dev", "docs")  # extras for those who change the package


def test_the_licence_of_every_dependency_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"]]
    needed += [item for name in extras.keys() - {*NOT_SHIPPED} for item in extras[name]]
    names = {re.split(r"[^\w-]", item)[0] for item in needed}
    listed = TEXT[TEXT.index("| package | licence |") :]
    assert not [name for name in names if not re.search(rf"\b{name}\b", listed)]


def test_the_limits_are_those_of_the_code() -> None:
    assert "| a table in text | 1 GiB |" in TEXT and tables.MOST_BYTES == 2**30
    assert "| 2²⁸ values |" in TEXT and tables._MOST_PARQUET_VALUES == 2**28
    assert "| description of a model | 64 MiB |" in TEXT and storage.MOST_DESCRIPTION_BYTES == 2**26
    assert storage.MOST_TENSOR_BYTES == parts.MOST_BYTES == 2**34
    assert "| tensors of a model, each part of a panel | 16 GiB |" in TEXT
    ratio, always = tables._MOST_RATIO, tables._ALWAYS_ALLOWED // 2**20
    assert (
        f"| a gzip file | {ratio} times its size, {always} MiB in any case, 1 GiB at most |" in TEXT
    )
