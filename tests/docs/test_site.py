"""The documentation site: pages run from their first block to their last, name everything, and build."""

import importlib
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from deeplfm.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    *(DOCS / f"{name}.md" for name in ("index", "quickstart", "choose", "gallery")),
    *sorted((DOCS / "tutorials").glob("*.md")),
]
MODULES = (
    "deeplfm",
    "deeplfm.terms",
    "deeplfm.features",
    "deeplfm.data",
    "deeplfm.plots",
    "deeplfm.report",
)
NEEDED = {"daily-sales": ("holidays",), "ecosystem": ("sktime", "botorch")}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDED.get(page.stem, ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    text = page.read_text(encoding="utf-8")
    for language, content in re.findall(
        r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        if language == "python":
            exec(compile(content, page.name, "exec"), names)
            continue
        for line in content.splitlines():
            quick = ["--n-steps", "3"] if re.match(r"deeplfm (fit|impute|compare)", line) else []
            quick = [] if "--n-steps" in line else quick
            with pytest.raises(SystemExit) as end:
                main([*shlex.split(line)[1:], *quick, "--quiet"])
            assert end.value.code == 0, line


def test_every_figure_of_the_gallery_is_there_and_made_by_the_page() -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\(figures/([^)]+)\)", text)
    examples = [f"{path.stem}.png" for path in (DOCS.parent / "examples").glob("*.py")]
    by_examples = [name for name in shown if name in examples]
    by_blocks = re.findall(r'savefig\("([^"]+)"\)', text)
    assert shown == by_blocks + by_examples and by_blocks and by_examples
    assert all((DOCS / "figures" / name).exists() for name in shown)


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(module: str) -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    public = [name for name in importlib.import_module(module).__all__ if name != "__version__"]
    missing = [
        name for name in public if not re.search(rf":: {module}\.{name}$", text, re.MULTILINE)
    ]
    assert missing == []


def test_parameters_are_documented_on_the_classes_themselves() -> None:
    from deeplfm import DeepLFMForecaster, DeepLFMRegressor

    for kind in (DeepLFMForecaster, DeepLFMRegressor):
        undocumented = [
            name for name in kind().get_params() if f"\n    {name}: " not in kind.__doc__
        ]
        assert undocumented == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser", "furo", "sktime", "botorch"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-q", "-W", "--keep-going"]
    done = subprocess.run(
        [*command, str(DOCS), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "DeepLFMForecaster" in (tmp_path / "api.html").read_text(encoding="utf-8")
