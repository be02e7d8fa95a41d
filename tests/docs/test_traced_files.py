"""A call passes through few files; ``python tools/trace_files.py --files`` lists them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {"fit": 40, "forecast": 17, "posterior": 14}


def test_fit_forecast_and_posterior_pass_through_few_files() -> None:
    # In a process of its own: the profiler of a test run would take its place.
    command = [sys.executable, str(ROOT / "tools" / "trace_files.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: int(n) for name, n in re.findall(r"^(\w+): (\d+) files$", done.stdout, re.M)}
    assert found.keys() == LIMITS.keys()
    assert all(found[name] <= limit for name, limit in LIMITS.items()), found
