"""The list of slow tests names tests that exist."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_slow_test_exists() -> None:
    names = (ROOT / "tests" / "slow.txt").read_text().split()
    assert names == sorted(names)
    for name in names:
        path, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name
