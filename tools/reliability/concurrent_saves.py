"""Saves and loads of one folder by several processes: no model lost, no wrong read.

python tools/reliability/concurrent_saves.py --count 1000 --processes 4
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import Report, arguments, python

from deeplfm.io.storage import PARTS, read_folder

GOOD = ("saved", "read", "replaced")
WORK = """
import sys, torch
from pathlib import Path
from deeplfm.errors import DeepLFMError
from deeplfm.io.parts import content_of, pack, unpack
from deeplfm.io.storage import read_folder, write_folder
folder, me, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    key = 1000 * me + number
    try:
        if number % 2 == me % 2:
            tensors = {f"t{i}": torch.full((20 + i,), key) for i in range(5)}
            parts = [pack({"key": key}, tensors) for _ in range(number % 3)]  # 0: not of a panel
            write_folder(folder, {"key": key}, tensors, parts)
            print("saved", flush=True)
        else:
            description, tensors = read_folder(folder)
            right = all(bool((t == description["key"]).all()) for t in tensors.values())
            outcome = "read" if right else "wrong"
            places = description.get("parts", {"folder": "", "files": []})
            for name in places["files"]:
                try:
                    part, _ = unpack(content_of(Path(folder) / places["folder"] / name))
                    if part["key"] != description["key"]:
                        outcome = "wrong"
                except DeepLFMError:
                    outcome = "replaced"  # a part is gone once the panel was saved again
            print(outcome, flush=True)
    except DeepLFMError as error:
        print(f"lost: {error}", flush=True)
    except BaseException as error:
        print(f"error: {error!r}", flush=True)
"""


def main() -> int:
    """Start all processes at once and count what they report."""
    options = arguments(__doc__, 1000, processes=(int, 4, "how many"))
    report = Report(f"concurrent saves and loads by {options.processes} processes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        first = python(WORK, folder, 0, 1)  # so that there is something to load
        first.wait()
        each = options.count // options.processes
        workers = [python(WORK, folder, me, each) for me in range(options.processes)]
        for worker in workers:
            for line in worker.communicate()[0].splitlines():
                report.add(line.partition(":")[0], None if line in GOOD else line)
        read_folder(folder)
        left = sorted(path.name for path in folder.iterdir())
        if len(left) != 2 + (PARTS in read_folder(folder)[0]):
            report.add("leftovers", str(left))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
