"""Data: simulated systems, and tables larger than memory."""

from deeplfm.data.parquet import ParquetTable, open_parquet

__all__ = ["ParquetTable", "open_parquet"]
