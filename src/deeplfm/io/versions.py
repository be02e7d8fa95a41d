"""What results were computed with."""

from __future__ import annotations

import platform
from importlib.metadata import version

import deeplfm

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "gpytorch")


def versions() -> dict[str, str]:
    """Versions of deeplfm, of Python and of the packages that decide numbers."""
    packages = {name: version(name) for name in _PACKAGES}
    return {"deeplfm": deeplfm.__version__, "python": platform.python_version(), **packages}
