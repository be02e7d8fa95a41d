"""Compiling the kernels for the machine at hand, once."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

from deeplfm.errors import DeepLFMError
from deeplfm.io.files import (
    file_digest,
    is_private,
    private_folder,
    temporary_folder,
    write_whole,
)

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
    """Path of the compiled kernels; compiled if source, flags, compiler or processor are new.

    A library in the cache is used only if nobody else can have written it, and if it has the SHA-256
    that was kept beside it; otherwise it is compiled again.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompilerError(
            "no C++ compiler found (looked for $CXX, c++, g++ and clang++). Install one, "
            "such as Debian's g++, or set CXX."
        )
    version = _run([compiler, "--version"])
    identity = "\n".join([_SOURCE.read_text(), *_FLAGS, version, _processor()])
    name = f"waves-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    target = private_folder("kernels") / name
    if not _is_whole(target):
        try:
            _compile(compiler, target)
        except OSError:  # a folder in its place, or no space
            target = temporary_folder() / name
            _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    """Compile to a file that is whole or absent, whoever else compiles."""

    def write(made: Path) -> None:
        _run([compiler, *_FLAGS, "-o", str(made), str(_SOURCE)])
        made.chmod(0o600)

    def write_digest(made: Path) -> None:
        made.write_text(file_digest(target))
        made.chmod(0o600)

    write_whole(target, write)
    write_whole(_digest_of(target), write_digest)


def _is_whole(library: Path) -> bool:
    """Whether a library is the one that was compiled here."""
    digest = _digest_of(library)
    try:
        if not (library.is_file() and digest.is_file()):
            return False
        are_own = is_private(library) and is_private(digest)
        return are_own and digest.read_text() == file_digest(library)
    except (OSError, UnicodeDecodeError):
        return False


def _digest_of(library: Path) -> Path:
    return library.with_suffix(".sha256")


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
