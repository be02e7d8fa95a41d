"""Mutation testing: small changes of the code that the tests of a module must notice.

::

    python tools/reliability/mutants.py --target storage --count 100

One operator, number, condition or statement is changed at a time, and the tests of the module run in a
copy of this process. Mutants that survive are listed: each is a test that is missing, or a change without
an effect.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas  # noqa: F401
import pytest
import safetensors.torch  # noqa: F401
import sklearn.utils.validation  # noqa: F401
import torch  # noqa: F401
from common import ROOT, Report, arguments

HANGS_AFTER = 120  # seconds
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE,
    ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And, ast.USub: ast.UAdd,
}  # fmt: skip


class Target(NamedTuple):
    """Modules to change, and the tests that must notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = {
    "storage": Target(("io/storage.py",), ("tests/unit/io/test_storage_folders.py",)),
    "objective": Target(("objective.py",), ("tests/unit/test_objective.py",)),
    "features": Target(
        ("features/ode2.py", "features/response.py", "features/products.py"),
        ("tests/exact/test_first_order_response.py", "tests/exact/test_second_order_response.py",
          "tests/contract/test_feature_maps.py"),
    ),
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module."""

    path: Path
    line: int
    change: str
    tree: ast.Module


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All of a module, but for its messages, annotations and docstrings."""
    n_nodes = len(list(ast.walk(ast.parse(path.read_text()))))
    for place in range(n_nodes):
        tree = ast.parse(path.read_text())
        node = list(ast.walk(tree))[place]
        before = ast.unparse(node) if hasattr(node, "lineno") else ""
        if _change(node):
            text = f"{before} -> {ast.unparse(node)}"
            yield Mutant(path, getattr(node, "lineno", 0), text, ast.fix_missing_locations(tree))


def _change(node: Any) -> bool:
    """Change a node in place, if it is of a kind that is changed."""
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp) and type(node.op) in SWAPS:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
            if any(isinstance(side, ast.JoinedStr | ast.List) for side in (node.left, node.right)):
                return False
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.If | ast.IfExp):
        if isinstance(node.test, ast.Attribute) and node.test.attr == "TYPE_CHECKING":
            return False
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        node.value = ast.Constant(None)
    else:
        return False
    return True


class Loader(importlib.machinery.SourceFileLoader):
    """Gives the changed tree in place of the module."""

    tree: ast.Module

    def get_code(self, fullname: str) -> Any:
        """The code of the mutant."""
        return compile(self.tree, self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Finds the module that is changed."""

    def __init__(self, mutant: Mutant) -> None:
        inside = mutant.path.relative_to(ROOT / "src").with_suffix("")
        self.name, self.mutant = ".".join(inside.parts), mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Its specification, with our loader."""
        if fullname != self.name:
            return None
        loader = Loader(fullname, str(self.mutant.path))
        loader.tree = self.mutant.tree
        return importlib.machinery.ModuleSpec(fullname, loader, origin=str(self.mutant.path))


def outcome_of(mutant: Mutant | None, tests: tuple[str, ...]) -> str:
    """Whether the tests notice a mutant; None is the module as it is."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.alarm(HANGS_AFTER)  # not handled: it ends the process
            if mutant is not None:
                sys.meta_path.insert(0, Finder(mutant))
            options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
            os._exit(int(pytest.main([*options, *(str(ROOT / test) for test in tests)])))
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "killed by time"
    return "killed" if os.WEXITSTATUS(status) else "survived"


def main() -> int:
    """Change, test, count."""
    options = arguments(__doc__, 100, target=(str, "storage", ", ".join(TARGETS)))
    target = TARGETS[options.target]
    sys.path.insert(0, str(ROOT / "src"))
    report = Report(f"mutants of {options.target}")
    if outcome_of(None, target.tests) != "survived":
        report.add("failed", "the tests fail without a change")
        return report.end()
    found = [item for name in target.modules for item in mutants_of(ROOT / "src/deeplfm" / name)]
    order = np.random.default_rng(options.seed).permutation(len(found))[: options.count]
    for place in sorted(order):
        mutant = found[place]
        outcome = outcome_of(mutant, target.tests)
        report.add(outcome)
        if outcome == "survived":
            print(f"  {mutant.path.name}:{mutant.line}: {mutant.change}"[:160], flush=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
