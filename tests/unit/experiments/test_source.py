"""The digest of the code: what changes it, and what does not."""

import pytest

import deeplfm
from deeplfm.experiments.tasks import source_digest


@pytest.fixture
def package(tmp_path, monkeypatch):
    files = ("__init__.py", "model.py", "kernels/waves.cpp", "cli/app.py", "experiments/tables.py")
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(deeplfm, "__file__", str(tmp_path / "__init__.py"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("model.py", True),
        ("kernels/waves.cpp", True),
        ("kernels/new.py", True),
        ("cli/app.py", False),
        ("experiments/tables.py", False),
        ("model.pyc", False),
    ],
)
def test_the_digest_is_of_what_decides_numbers(package, name, matters):
    before = source_digest.__wrapped__()
    (package / name).write_text("changed")
    assert (source_digest.__wrapped__() != before) == matters


def test_a_renamed_file_is_other_code(package):
    before = source_digest.__wrapped__()
    (package / "model.py").rename(package / "models.py")
    assert source_digest.__wrapped__() != before


def test_it_is_taken_once_for_a_process(package):
    assert source_digest() == source_digest() and len(source_digest()) == 12
