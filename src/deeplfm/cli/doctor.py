"""``deeplfm doctor``: describe the installation and test its optional parts."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import deeplfm
from deeplfm.cli.options import OutputOptions
from deeplfm.cli.terminal import Terminal, table
from deeplfm.errors import DeepLFMError, InputError

EXAMPLES = ("deeplfm doctor", "deeplfm doctor --json")
_FOR_DEVELOPERS = ("dev", "docs")


def doctor(output: OutputOptions) -> None:
    """Show versions, threads, compiler and folders, and test the optional parts."""
    import torch

    from deeplfm.io.files import cache_folder
    from deeplfm.kernels.build import find_compiler

    needed, optional = _packages()
    found: dict[str, Any] = {
        "deeplfm": deeplfm.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": needed,
        "optional": optional,
        "threads": {
            "cores": os.cpu_count(),
            "torch": torch.get_num_threads(),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        },
        "cuda": torch.cuda.is_available(),
        "compiler": find_compiler(),
        "compiled_kernels": _try_kernels(),
        "cache": str(cache_folder()),
        "data_folders": _data_folders(),
    }
    terminal = Terminal(output)
    terminal.print(table(["deeplfm doctor", ""], _rows(found), words=2))
    terminal.print_json(found)


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    threads = found["threads"]
    rows = [(name, found[name]) for name in ("deeplfm", "python", "platform")]
    rows += [(name, version or "missing") for name, version in found["packages"].items()]
    for part, packages in found["optional"].items():
        missing = [name for name, version in packages.items() if version is None]
        versions = ", ".join(f"{name} {version}" for name, version in packages.items())
        advice = f'{", ".join(missing)} missing: pip install "deeplfm[{part}]"'
        rows.append((f"optional: {part}", advice if missing else versions))
    return [
        *rows,
        ("threads", f"{threads['torch']} of {threads['cores']} cores"),
        ("CUDA", "yes" if found["cuda"] else "no"),
        ("C++ compiler", found["compiler"] or "none: --compile has no effect"),
        ("compiled kernels", found["compiled_kernels"]),
        ("cache", found["cache"]),
        *(("data", folder) for folder in found["data_folders"]),
    ]


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Versions of the required packages, and of the optional ones by extra."""
    needed: dict[str, str | None] = {}
    optional: dict[str, dict[str, str | None]] = {}
    for line in metadata.requires("deeplfm") or []:
        name = re.match(r"[\w.-]+", line)
        part = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if name is None or (part is not None and part[1] in _FOR_DEVELOPERS):
            continue
        group = needed if part is None else optional.setdefault(part[1], {})
        group[name[0]] = _version(name[0])
    return needed, optional


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _try_kernels() -> str:
    """Compile the kernels if necessary, and compare them with the plain ones."""
    import torch

    from deeplfm.kernels import load_kernels
    from deeplfm.kernels.plain import PlainKernels

    x = torch.linspace(-1, 1, 5, dtype=torch.float64).view(1, 1, 1, 5, 1)
    wave = torch.linspace(1, 3, 4, dtype=torch.float64)
    given = x, wave.view(1, 1, 1, 4), wave.view(1, 1, 4), wave.view(1, 1, 4), None, None
    try:
        found, _ = load_kernels().evaluate(*given)
    except (DeepLFMError, OSError) as error:
        return f"do not work: {error}"
    expected, _ = PlainKernels().evaluate(*given)
    agree = all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))
    return "work" if agree else "wrong results: do not use --compile"


def _data_folders() -> list[str]:
    from deeplfm.data.places import data_cache, user_folder

    try:
        named = user_folder()
    except InputError as error:
        return [str(error), str(data_cache())]
    return [str(folder) for folder in (named, data_cache()) if folder]
