"""Names of the slow tests, for ``tests/slow.txt``, from the durations that pytest prints.

::

    pytest --durations=400 > durations.txt
    python tools/slow_tests.py durations.txt --seconds 2 > tests/slow.txt
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

LINE = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+(tests/\S+?::\w+)", re.MULTILINE)


def main() -> None:
    """Print every test function whose cases take longer in all than some seconds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("durations", type=Path, help="output of pytest --durations")
    parser.add_argument("--seconds", type=float, default=2.0, help="of all cases of a test")
    options = parser.parse_args()
    total: dict[str, float] = defaultdict(float)
    for seconds, name in LINE.findall(options.durations.read_text()):
        total[name] += float(seconds)
    print(*sorted(name for name, seconds in total.items() if seconds > options.seconds), sep="\n")


if __name__ == "__main__":
    main()
