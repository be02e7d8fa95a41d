"""What is saved comes back bit by bit, and a bad file is refused by name."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import deeplfm
from deeplfm import DeepLFMRegressor, InputError, ModelFileError
from deeplfm.io import storage


@pytest.fixture(scope="module")
def fitted() -> DeepLFMRegressor:
    times = np.linspace(0, 10, 80)
    values = np.stack([np.sin(3 * times), 5 + 2 * np.cos(2 * times)], axis=1)
    values[10:20, 0] = np.nan
    model = DeepLFMRegressor(n_steps=3, random_state=3)
    return model.fit(times, values)


NEW_TIMES = np.linspace(0, 14, 37)


def test_a_fresh_process_predicts_the_same_bits(fitted: DeepLFMRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    expected = tmp_path / "expected.npy"
    mean, std = fitted.predict(NEW_TIMES, return_std=True)
    np.save(expected, np.stack([mean, std]))
    program = (
        "import sys, numpy as np, deeplfm\n"
        "model = deeplfm.load(sys.argv[1])\n"
        "got = np.stack(model.predict(np.linspace(0, 14, 37), return_std=True))\n"
        "sys.exit(0 if np.array_equal(got, np.load(sys.argv[2])) else 1)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "model"), str(expected)]
    assert subprocess.run(arguments, check=False).returncode == 0


@pytest.mark.parametrize("declared", ["deep({})", "paper({})"])
@pytest.mark.parametrize("system", ["ode1", "eq", "arc1"])
def test_every_kind_of_model_comes_back(declared: str, system: str, tmp_path: Path) -> None:
    times = np.linspace(0, 1, 40)
    text = declared.format(f"system={system}, n_features=5")
    model = DeepLFMRegressor(text, n_steps=1)
    model.fit(times, np.sin(9 * times)).save(tmp_path / "model")
    loaded = deeplfm.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(NEW_TIMES), model.predict(NEW_TIMES))
    assert loaded.get_params() == model.get_params()


def test_saving_again_replaces_the_model(fitted: DeepLFMRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert len(names) == 2
    assert names[0] == "model.json"
    assert names[1].endswith(".safetensors")


def test_a_save_killed_at_any_moment_leaves_the_old_model_or_the_new_one(
    fitted: DeepLFMRegressor, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    fitted.save(folder)
    program = (
        "import sys, deeplfm\n"
        "model = deeplfm.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True: model.save(sys.argv[1])\n"
    )
    expected = fitted.predict(NEW_TIMES)
    for delay in (0.01, 0.04, 0.09):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.communicate()
        assert np.array_equal(deeplfm.load(folder).predict(NEW_TIMES), expected)
    fitted.save(folder)
    assert len(list(folder.glob("*.safetensors"))) == 1


def test_other_peoples_folders_are_left_alone(fitted: DeepLFMRegressor, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        fitted.save(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        fitted.save(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def damage(folder: Path, how: str) -> None:
    description = folder / "model.json"
    (tensors,) = folder.glob("*.safetensors")
    if how == "truncated tensors":
        tensors.write_bytes(tensors.read_bytes()[:-100])
    elif how == "no tensors":
        tensors.unlink()
    elif how == "no description":
        description.unlink()
    elif how == "truncated description":
        description.write_text(description.read_text()[:50])
    elif how == "foreign":
        description.write_text(json.dumps({"format": "other"}))
    elif how == "not a file":
        description.unlink()
        description.mkdir()
    elif how == "nested":
        description.write_text("[" * 100_000)
    elif how == "long number":
        description.write_text('{"format": ' + "1" * 5000 + "}")
    elif how == "missing keys":
        content = {"format": "deeplfm", "format_version": 3}
        description.write_text(storage.description_text(content))
    elif how == "edited":
        text = description.read_text()
        description.write_text(text.replace('"random_state": 3', '"random_state": 2'))
    elif how == "newer":
        content = json.loads(description.read_text()) | {"format_version": 99}
        description.write_text(json.dumps(content))
    elif how == "other model":
        content = json.loads(description.read_text())
        content["members"] *= 2
        del content["sha256"]
        description.write_text(storage.description_text(content))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated tensors", "missing or damaged"),
        ("no tensors", "missing or damaged"),
        ("no description", "no model.json"),
        ("truncated description", "damaged"),
        ("foreign", "not the description"),
        ("missing keys", "does not describe"),
        ("newer", "format version 99.*Update deeplfm"),
        ("not a file", "no model.json"),
        ("nested", "damaged"),
        ("long number", "damaged"),
        ("edited", "damaged or was edited"),
        ("other model", "not of one model"),
    ],
)
def test_bad_files_are_refused_by_name(
    fitted: DeepLFMRegressor, tmp_path: Path, how: str, message: str
) -> None:
    fitted.save(tmp_path / "model")
    damage(tmp_path / "model", how)
    with pytest.raises(ModelFileError, match=message):
        deeplfm.load(tmp_path / "model")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not a folder"):
        deeplfm.load(tmp_path / "nothing")


def test_a_model_of_an_earlier_deeplfm_is_refused_with_the_version_to_use(tmp_path: Path) -> None:
    """The description is that of deeplfm 0.1.0; its tensors are not read."""
    content = {
        "format": "deeplfm",
        "format_version": 2,
        "tensors": "tensors-3b4eb211.safetensors",
        "versions": {"deeplfm": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu"},
        "estimator": "DeepLFMRegressor",
        "parameters": {
            "preset": "default",
            "model": "sinusoids + broadband",
            "hidden": [3],
        },
        "members": [{"kind": "layers", "seed": 0, "config": {"n_bells": 0}, "sizes": {}}],
    }
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(
        ModelFileError, match=r"Load it with deeplfm 0\.1\.0, or fit the model again"
    ):
        deeplfm.load(tmp_path)


def test_one_flipped_bit_anywhere_is_refused(fitted: DeepLFMRegressor, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    fitted.save(folder)
    (tensors,) = folder.glob("*.safetensors")
    random = np.random.default_rng(0)
    for path in (tensors, folder / "model.json"):
        whole = path.read_bytes()
        for place in random.integers(len(whole), size=40):
            bit = 1 << int(random.integers(8))
            changed = bytearray(whole)
            changed[place] ^= bit
            path.write_bytes(changed)
            with pytest.raises(ModelFileError):
                deeplfm.load(folder)
        path.write_bytes(whole)
    assert np.array_equal(deeplfm.load(folder).predict(NEW_TIMES), fitted.predict(NEW_TIMES))


def test_a_digit_that_changes_no_number_is_refused(
    fitted: DeepLFMRegressor, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / storage.DESCRIPTION
    text = path.read_text()
    longer = re.sub(r"(\d\.\d+)", r"\g<1>000000000000000000", text, count=1)
    assert longer != text
    path.write_text(longer)
    with pytest.raises(ModelFileError, match="damaged or was edited"):
        deeplfm.load(tmp_path / "model")
