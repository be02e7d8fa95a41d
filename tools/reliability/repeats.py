"""The same seed gives the same bits: fits repeated at 1 and 2 threads and 1 and 2 jobs.

::

    python tools/reliability/repeats.py --count 20

Each setting of threads and jobs has bits of its own; within one of them all repetitions are equal.
"""

from __future__ import annotations

import sys
from itertools import product

from common import Report, arguments, python

WORK = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
from common import digest_of
from deeplfm import DeepLFMRegressor
threads, jobs, count = map(int, sys.argv[1:])
torch.set_num_threads(threads)
x = np.linspace(0, 6, 40)
y = np.stack([np.sin(3 * x), np.cos(5 * x)], axis=1)
y[20:24, 1] = np.nan
models = {"a": "trend + level", "b": "sinusoids(2)"}
for _ in range(count):
    model = DeepLFMRegressor(models, n_steps=2, n_jobs=jobs, random_state=5, progress=False)
    print(digest_of(model.fit(x, y)), flush=True)
"""


def main() -> int:
    """Fit in fresh processes, and compare digests."""
    options = arguments(__doc__, 20)
    report = Report("same seed, same bits")
    for threads, jobs in product((1, 2), (1, 2)):
        halves = [options.count // 2, options.count - options.count // 2]  # two processes
        found = []
        for count in halves:
            process = python(WORK, threads, jobs, count, cwd=sys.path[0])
            out, error = process.communicate()
            found += out.split()
            if process.returncode:
                report.add("failed", error[-300:])
        for digest in found:
            same = digest == found[0]
            report.add("equal" if same else "different", None if same else f"{threads}, {jobs}")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
