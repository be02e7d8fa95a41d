"""One model that several processes fit together, from a table on disk.

In each step every process reads its share of the rows, and the sums over rows are added up. So the model
is the one that a single process fits. A run that was killed goes on from its checkpoint.

Run it with ``python several_processes.py [folder]``, or in two processes that torchrun starts again when
one of them ends: ``torchrun --nproc-per-node 2 --max-restarts 3 several_processes.py [folder]``.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from deeplfm import DeepLFMRegressor
from deeplfm.plots import learning_figure
from deeplfm.training.distributed import together

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

# A table that is larger than memory would be on disk already, where every machine can read it.
scratch = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
x = rng.normal(size=(4000, 3)).astype(np.float32)
y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=len(x))
np.save(scratch / "x.npy", x)
np.save(scratch / "y.npy", y)
X, target = (np.load(scratch / name, mmap_mode="r") for name in ("x.npy", "y.npy"))

model = DeepLFMRegressor(
    "table(hidden=2, n_features=10)",
    n_steps=20,
    batch_size=500,
    progress=False,
    checkpoint=folder / "several-processes-checkpoint",
)
with together() as processes:
    model.fit(X[:3500], target[:3500])
    error = model.predict(X[3500:]) - target[3500:]
    model.save(folder / "several-processes-model")  # the first process writes
    if processes.writes:
        print(f"{processes.size} processes, error of new rows: {np.sqrt(np.mean(error**2)):.2f}")
        learning_figure(model.history_).savefig(folder / "several_processes.png", dpi=120)
