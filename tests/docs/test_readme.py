"""The code of the README runs, and its commands are the ones that work."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_python_example_runs_and_is_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = code_blocks("python")
    assert len(example.strip().splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert (tmp_path / "sine-model").is_dir()


def test_both_commands_are_one_line_each() -> None:
    lines = [line for block in code_blocks("") for line in block.splitlines()]
    assert any(re.fullmatch(r"pip install .* && deeplfm demo", line) for line in lines)
    assert any(re.fullmatch(r"pip install .* && .*pytest", line) for line in lines)


@pytest.mark.parametrize(
    "module",
    ["deeplfm.features.ode1", "deeplfm.model", "deeplfm.estimators.regressor"],
)
def test_docstring_examples(module: str) -> None:
    import doctest
    import importlib

    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
