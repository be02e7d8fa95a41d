"""The scripts of tools/reliability at small counts; docs/reliability.md has the full counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "tools" / "reliability"
SMALL = {
    "mutations": ["--count", "60"],
    "kills": ["--count", "6"],
    "concurrent_saves": ["--count", "60", "--processes", "3"],
    "command_lines": ["--count", "120"],
    "repeats": ["--count", "2"],
    "soak": ["--count", "6"],
}


def test_every_script_is_run() -> None:
    """But that of mutation testing, which runs tests itself."""
    assert {path.stem for path in FOLDER.glob("*.py")} - {"common", "mutants"} == SMALL.keys()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="signals and /proc of Linux")
@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_lost_or_silently_wrong(name: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), *SMALL[name]]
    environment = os.environ | {
        "PYTHONPATH": str(FOLDER.parents[1] / "src"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and " 0 bad " in done.stdout, done.stdout + done.stderr
