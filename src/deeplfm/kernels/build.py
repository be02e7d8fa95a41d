"""Compiling the kernels for the machine at hand, once."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from deeplfm.errors import DeepLFMError
from deeplfm.io.files import cache_folder

_SOURCE = Path(__file__).with_name("waves.cpp")
_FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)


class CompilerError(DeepLFMError):
    """The kernels cannot be compiled here."""


@cache
def build() -> Path:
    """Path of the compiled kernels; compiled if source, flags, compiler or processor are new."""
    compiler = find_compiler()
    if compiler is None:
        raise CompilerError(
            "no C++ compiler found (looked for $CXX, c++, g++ and clang++). Install one, "
            "such as Debian's g++, or set CXX."
        )
    version = _run([compiler, "--version"])
    identity = "\n".join([_SOURCE.read_text(), *_FLAGS, version, _processor()])
    name = f"waves-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    folder = cache_folder()
    target = folder / name
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / name
            _run([compiler, *_FLAGS, "-o", str(made), str(_SOURCE)])
            made.replace(target)  # whole or not at all, whoever else compiles
    return target


def find_compiler() -> str | None:
    """The C++ compiler that would be used."""
    names = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        first = next((line for line in output.splitlines() if "error" in line), output.strip())
        raise CompilerError(f"{command[0]} failed: {first.strip()[:200]}.") from error
    return done.stdout


def _processor() -> str:
    """The machine features that -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
