"""Model folders by themselves: what is written, read, refused and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deeplfm.errors import InputError, ModelFileError
from deeplfm.io import storage
from deeplfm.io.files import locked
from deeplfm.io.storage import read_folder, write_folder

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3).T,  # not contiguous
    "b": torch.tensor([[1, -2]], dtype=torch.int32),
    "c": torch.tensor([1.0, float("nan")], dtype=torch.float64),
    "d": torch.zeros(0),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "model", {"key": [1, {"two": "ü"}]}, TENSORS)
    return tmp_path / "model"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def change(folder: Path, **values: Any) -> None:
    """Change a description and give it the right checksum."""
    content = json.loads((folder / "model.json").read_text()) | values
    del content["sha256"]
    (folder / "model.json").write_text(storage.description_text(content))


def test_what_is_written_is_read(folder: Path) -> None:
    description, tensors = read_folder(folder)
    assert description["key"] == [1, {"two": "ü"}]
    assert description["not_finite"] == ["c"]
    assert description["format"] == "deeplfm" and "sha256" not in description
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name].nan_to_num(7), tensor.nan_to_num(7))
    assert names(folder) == ["model.json", description["tensors"]]


def test_numbers_of_numpy_and_other_objects_are_plain(tmp_path: Path) -> None:
    content = {"a": np.float64(0.1), "b": np.arange(2), "c": torch.float32}
    write_folder(tmp_path / "deep" / "model", content, {})
    description, tensors = read_folder(tmp_path / "deep" / "model")
    assert [description[key] for key in "abc"] == [0.1, [0, 1], "torch.float32"]
    assert tensors == {}


def test_a_save_removes_what_it_replaces_and_nothing_else(folder: Path) -> None:
    before = read_folder(folder)[0]["tensors"]
    (folder / "tensors-left.safetensors").write_text("of a killed save")
    (folder / ".model.json.0123abcd.unfinished").write_text("of a killed save")
    (folder / "tensors-folder").mkdir()
    (folder / "notes.txt").write_text("mine")
    write_folder(folder, {"key": 2}, {})
    after = read_folder(folder)[0]
    assert after["key"] == 2 and after["tensors"] != before
    assert names(folder) == sorted(["model.json", "notes.txt", "tensors-folder", after["tensors"]])


def test_without_a_lock_only_the_replaced_tensors_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def unlocked(_: Path) -> Iterator[bool]:
        yield False

    monkeypatch.setattr(storage, "locked", unlocked)
    before = read_folder(folder)[0]["tensors"]
    (folder / "tensors-other.safetensors").write_text("of another process")
    (folder / ".model.json.0123abcd.unfinished").write_text("of another process")
    write_folder(folder, {}, {})
    assert before not in names(folder) and len(names(folder)) == 4


@pytest.mark.parametrize("which", ["tensors", "model.json"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_model(
    folder: Path, which: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, plain = names(folder), storage.write_whole

    def full(path: Path, write: Any) -> None:
        if path.name.startswith(which):
            raise error
        plain(path, write)

    monkeypatch.setattr(storage, "write_whole", full)
    expected = InputError if isinstance(error, OSError) else KeyboardInterrupt
    for parts in ([], [b"a part"]):
        with pytest.raises(expected, match=r"No space left|^$"):
            write_folder(folder, {"key": 3}, {}, parts)
        assert names(folder) == before
    assert read_folder(folder)[0]["key"] != 3


@pytest.mark.parametrize(
    ("limit", "file"),
    [("MOST_TENSOR_BYTES", "tensors-*"), ("MOST_DESCRIPTION_BYTES", "model.json")],
)
def test_sizes_are_limited(
    folder: Path, limit: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = folder.glob(file)
    size = path.stat().st_size
    monkeypatch.setattr(storage, limit, size)
    read_folder(folder)
    monkeypatch.setattr(storage, limit, size - 1)
    with pytest.raises(ModelFileError, match=r"has more than 0 MiB, the largest size that is read"):
        read_folder(folder)
    monkeypatch.setattr(storage, limit, 30)
    with pytest.raises(InputError, match=r"save: .*has more than"):
        write_folder(folder, {}, TENSORS)


def test_tensors_up_to_the_limit_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_bytes = sum(tensor.nbytes for tensor in TENSORS.values())
    monkeypatch.setattr(storage, "MOST_TENSOR_BYTES", n_bytes)
    write_folder(tmp_path / "model", {}, TENSORS)
    monkeypatch.setattr(storage, "MOST_TENSOR_BYTES", n_bytes - 1)
    with pytest.raises(InputError, match="save: "):
        write_folder(tmp_path / "model", {}, TENSORS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "other"}, "is not the description of a deeplfm model"),
        ({"format_version": None}, "format version None, this deeplfm reads 3. Update"),
        ({"format_version": 4}, "format version 4, this deeplfm reads 3. Update"),
        ({"format_version": 2, "versions": {"deeplfm": "0.1.0"}}, "saved by deeplfm 0.1.0 "),
        ({"format_version": 2, "versions": 7}, "saved by deeplfm an earlier version "),
        ({"tensors": 3}, "does not describe where its tensors are"),
        ({"tensors_sha256": None}, "missing or damaged .its SHA-256 is"),
        ({"not_finite": None}, "not_finite is no list"),
        ({"not_finite": []}, "c holds values that are not finite"),
    ],
)
def test_descriptions_of_something_else_are_refused(
    folder: Path, values: dict[str, Any], message: str
) -> None:
    change(folder, **values)
    with pytest.raises(ModelFileError, match=f"^load: .*{message}"):
        read_folder(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"two"', '"twx"'),
        lambda text: text.replace('"key": ', '"key":  '),
        lambda text: text + "\n",
        lambda text: text.replace("[\n", "[  \n", 1),
        lambda text: text[:-3] + "0" + text[-2:],
        lambda text: '{"key": 1, ' + text[1:],
    ],
)
def test_every_change_of_the_text_is_found(folder: Path, edit: Any) -> None:
    path = folder / "model.json"
    changed = edit(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(ModelFileError, match=r"damaged"):
        read_folder(folder)


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = storage._read_description
    stale = [plain(folder)]
    write_folder(folder, {"key": "new"}, {})
    monkeypatch.setattr(
        storage, "_read_description", lambda path: stale.pop() if stale else plain(path)
    )
    assert read_folder(folder)[0]["key"] == "new"


def test_a_model_that_never_rests_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = storage._read_description(folder)
    write_folder(folder, {}, {})
    calls: list[int] = []
    monkeypatch.setattr(storage, "_read_description", lambda _: calls.append(0) or dict(stale))
    with pytest.raises(ModelFileError, match="missing or damaged"):
        read_folder(folder)
    assert len(calls) == storage._N_TRIES


def test_missing_tensors_of_a_model_at_rest_are_reported_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / read_folder(folder)[0]["tensors"]).unlink()
    calls, plain = [], storage._read_description
    monkeypatch.setattr(storage, "_read_description", lambda path: calls.append(0) or plain(path))
    with pytest.raises(ModelFileError, match=r"missing or damaged .No such file"):
        read_folder(folder)
    assert len(calls) == 1


def test_targets_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"save: .* is a file. Give the name of a folder"):
        write_folder(tmp_path / "file", {}, {})
    with pytest.raises(InputError, match="cannot make folder"):
        write_folder(tmp_path / "file" / "model", {}, {})
    with pytest.raises(InputError, match="holds other files and no deeplfm model"):
        write_folder(tmp_path, {}, {})
    assert names(tmp_path) == ["file"]
    left = tmp_path / "left"
    left.mkdir()
    for name in ("tensors-0.safetensors", ".run.toml.01234567.unfinished"):
        (left / name).write_text("of a killed save")
    write_folder(left, {}, {})
    assert len(names(left)) == 2


def test_parts_of_the_model_before_are_removed(folder: Path) -> None:
    for content in (b"first", b"second"):
        storage.write_folder(folder, {}, {}, [content])
    (place,) = (path for path in folder.iterdir() if path.is_dir())
    (file,) = place.iterdir()
    assert file.read_bytes() == b"second"
    assert read_folder(folder)[0][storage.PARTS] == {"folder": place.name, "files": [file.name]}
    storage.write_folder(folder, {}, {})
    assert not any(path.is_dir() for path in folder.iterdir())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(28, "No space left on device"), InputError),
        (ModelFileError("lost"), ModelFileError),
    ],
)
def test_parts_that_cannot_be_written_leave_the_old_model(
    folder: Path, error: OSError, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    before = names(folder)
    monkeypatch.setattr(storage, "write_parts", fails)
    with pytest.raises(kind, match=r"No space left on device|lost"):
        write_folder(folder, {}, {}, [b"a part"])
    assert names(folder) == before


@pytest.mark.parametrize(("name", "reason"), [("x" * 5000, "File name too long"), ("a\0b", "null")])
def test_names_that_the_system_refuses_are_input_errors(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(InputError, match=f"save: cannot make folder .*{reason}"):
        write_folder(tmp_path / name, {}, {})
    with pytest.raises(ModelFileError, match="is not a folder that can be read"):
        read_folder(tmp_path / name)


def test_a_folder_that_cannot_be_read_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("listdir", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(storage.os, name, refused)
            with pytest.raises(InputError, match=r"cannot be read .Permission denied"):
                write_folder(tmp_path, {}, {})


def test_a_folder_can_be_locked_again_by_the_work_that_holds_it(folder: Path) -> None:
    with locked(folder) as outer, locked(folder) as inner:
        write_folder(folder, {"key": 4}, {})
        assert outer and inner and read_folder(folder)[0]["key"] == 4
