"""The code of the README runs, and its commands are the ones that work."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def code_blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_figure_and_every_linked_page_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert links
    assert all((ROOT / link).exists() for link in links)


def test_the_design_page_runs() -> None:
    (example,) = code_blocks("python", ROOT / "docs" / "design.md")
    names: dict[str, object] = {}
    exec(compile(example, "design.md", "exec"), names)
    assert names["posterior"].mean.isfinite().all()


def test_the_reliability_page_runs_and_its_links_lead_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "reliability.md"
    monkeypatch.chdir(tmp_path)
    (example,) = code_blocks("python", page)
    exec(compile(example, "reliability.md", "exec"), {})
    for place in (page, ROOT / "SECURITY.md"):
        links = re.findall(r"\]\(([^)#]+)\)", place.read_text())
        assert all((place.parent / link).exists() for link in links)


def test_the_python_examples_run_and_a_forecast_takes_three_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, first, more, second, third = code_blocks("python")
    assert len([line for line in first.splitlines() if line]) == 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in (data, first, more):
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "load-model").is_dir()
    assert not names["filled"].isna().any().any()
    exec(compile(second, "README.md", "exec"), names)
    assert len(names["model"].selection_) == 1  # one model, no ensemble
    exec(compile(third, "README.md", "exec"), names)
    assert (names["many"].series_["status"] == "fitted").all()


def test_both_commands_are_one_line_each() -> None:
    lines = [line for block in code_blocks("") for line in block.splitlines()]
    assert any(re.fullmatch(r"pip install .* && deeplfm demo", line) for line in lines)
    assert any(re.fullmatch(r"pip install .* && .*pytest", line) for line in lines)
