"""The command line: ``deeplfm``."""

from deeplfm.cli.app import app, main

__all__ = ["app", "main"]
