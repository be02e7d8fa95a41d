"""Every directory of the package imports only from those above it in the table of CONTRIBUTING."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deeplfm"


def order() -> list[str]:
    """Directories and modules in the order of the table."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things are")[2]
    rows = re.findall(r"^\| (`.+?) \|", section.partition("\n## ")[0], re.M)
    return [
        name.removesuffix(".py").strip("/") for name in re.findall(r"`([\w./]+)`", " ".join(rows))
    ]


def imported(tree: ast.AST) -> Iterator[str]:
    """Parts of the package that a module imports, for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "deeplfm":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deeplfm."):
            yield str(node.module).split(".")[1]


def modules() -> list[str]:
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(str(path) for path in paths if not path.name.startswith("__") or path.parent.name)


def test_the_table_has_every_directory_and_module() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert len(order()) == len(set(order()))
    assert set(order()) == there


@pytest.mark.parametrize("name", order())
def test_imports_point_up_the_table(name: str) -> None:
    places, wrong = {part: i for i, part in enumerate(order())}, []
    for module in modules():
        if Path(module).parts[0].removesuffix(".py") != name:
            continue
        for other in imported(ast.parse((PACKAGE / module).read_text())):
            if other in places and places[other] > places[name]:
                wrong.append(f"{module} imports {other}")
    assert not wrong
