"""Build sdist and wheel, check the description for package indexes, and use the wheel.

The wheel is made from the sdist, so that both are complete, and used in a fresh environment, which
borrows the dependencies of the one that runs this script and has no checkout on its path.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMOKE = """
import sys
from importlib.metadata import metadata
from pathlib import Path

import numpy as np

import deeplfm

home = Path(deeplfm.__file__).resolve()
assert Path(sys.prefix).resolve() in home.parents, f"not the wheel: {home}"
assert (home.parent / "py.typed").exists(), "no py.typed"
assert metadata("deeplfm")["Version"] == deeplfm.__version__
assert "](docs/" not in metadata("deeplfm").get_payload(), "a link that leads nowhere"
time = np.arange(60.0)
model = deeplfm.DeepLFMRegressor("trend + season(12) + level").fit(time, np.sin(time * np.pi / 6))
assert np.isfinite(model.predict(time[-1] + np.arange(1, 13))).all()
model.save("model")
deeplfm.load("model")
print(f"deeplfm {deeplfm.__version__} from the wheel: imported, fitted, saved and loaded")
"""


def main() -> None:
    """Build, check, install, use."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _python("-m", "build", "--no-isolation", "--outdir", place / "dist", ROOT)
        files = sorted((place / "dist").iterdir())
        _python("-m", "twine", "check", "--strict", *files)
        (wheel,) = (path for path in files if path.suffix == ".whl")
        venv.create(place / "fresh", with_pip=True)
        python = place / "fresh" / "bin" / "python"
        _run(python, "-m", "pip", "install", "-q", "--no-deps", wheel)
        own = sysconfig.get_path("purelib", vars={"base": place / "fresh"})
        # A folder named in a .pth file is searched, and its own .pth files, with the checkout, are not.
        (Path(own) / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        _run(python, "-E", "-c", SMOKE, cwd=place)
        for command in (["-m", "deeplfm", "--version"], ["-m", "deeplfm", "fit", "--help"]):
            _run(python, *command, cwd=place, stdout=subprocess.DEVNULL)
        _run(place / "fresh" / "bin" / "deeplfm", "--version", cwd=place)


def _python(*arguments: object) -> None:
    _run(sys.executable, *arguments)


def _run(*command: object, **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
