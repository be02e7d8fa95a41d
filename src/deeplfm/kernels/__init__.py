"""The arithmetic whose cost grows with samples × rows × features, in plain PyTorch or compiled.

Compiled kernels are an optional part: ``waves.cpp`` is compiled for the machine at hand when it is
first used, and kept in the user's cache folder. Both do the same, to rounding.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from deeplfm.kernels.build import CompilerError, build
from deeplfm.kernels.compiled import CompiledKernels
from deeplfm.kernels.plain import compiled_in_use, kernels_for


@contextmanager
def compiled_kernels(is_wanted: bool = True) -> Iterator[bool]:
    """Use compiled kernels inside; yields whether they are there.

    >>> with compiled_kernels(False) as is_compiled:
    ...     is_compiled
    False
    """
    kernels = None
    if is_wanted:
        try:
            kernels = load_kernels()
        except CompilerError as error:
            warnings.warn(f"compile: {error} Going on without compiled kernels.", stacklevel=3)
    token = compiled_in_use.set(kernels)
    try:
        yield kernels is not None
    finally:
        compiled_in_use.reset(token)


def are_compiled() -> bool:
    """Whether compiled kernels are in use."""
    return compiled_in_use.get() is not None


@cache
def load_kernels() -> CompiledKernels:
    """The kernels of this machine, compiled if they are not yet."""
    try:
        return CompiledKernels(ctypes.CDLL(str(build())))
    except OSError as error:
        raise CompilerError(f"the compiled kernels cannot be loaded ({error}).") from error


__all__ = ["CompilerError", "are_compiled", "compiled_kernels", "kernels_for", "load_kernels"]
