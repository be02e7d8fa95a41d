"""Reports: one HTML page about a forecast."""

from deeplfm.report.page import write_report

__all__ = ["write_report"]
