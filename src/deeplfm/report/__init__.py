"""A page about a forecast, in one file."""

from deeplfm.report.page import write_report

__all__ = ["write_report"]
