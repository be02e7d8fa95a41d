"""What a release states in several places is the same in all of them."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement

import deeplfm

ROOT = Path(__file__).parents[2]
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("address", [None, "https://example.org/deeplfm"])
def test_no_link_of_the_description_is_relative(hook: ModuleType, address: str | None) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = hook.long_description(readme, address, "v1.0.0")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert all(link.startswith("https://") for link in links)
    if address is None:
        assert "![" not in text
    else:
        assert f"[design]({address}/blob/v1.0.0/docs/design.md)".lower() in text.lower()
        assert f"({address}/raw/v1.0.0/docs/figures/toy.png)" in text


def test_links_of_the_project_need_an_address(hook: ModuleType) -> None:
    assert hook.project_urls(None, "v1.0.0") == {}
    assert hook.project_urls("https://example.org/a", "v1.0.0")["Issues"].endswith("/a/issues")


def test_the_version_is_the_same_everywhere() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = {recipe["package"]["version"], citation["version"], changes.group(1)}
    assert found == {deeplfm.__version__}


def test_the_conda_recipe_has_the_same_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    declared = {
        CONDA_NAMES.get(item.name, item.name): item.specifier
        for item in map(Requirement, project["dependencies"])
    }
    found = {item.name: item.specifier for item in map(Requirement, recipe["requirements"]["run"])}
    assert str(found.pop("python")) == project["requires-python"]
    assert found == declared
