"""Marks the tests in ``slow.txt``; ``pytest -m "not slow"`` leaves them out."""

from pathlib import Path

import pytest

SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)
