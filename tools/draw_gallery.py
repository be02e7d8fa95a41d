"""Run the blocks of docs/gallery.md in docs/figures, where they save their figures."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Run the page from its first block to its last."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    os.chdir(DOCS / "figures")
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "gallery.md", "exec"), names)


if __name__ == "__main__":
    main()
