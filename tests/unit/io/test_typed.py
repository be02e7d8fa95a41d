"""Values of declarations that were read have the types that the declarations name."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from deeplfm.io.typed import checked


@dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Outer:
    number: float = 1
    count: int | None = None
    kind: Literal["a", "b"] = "a"
    pair: tuple[float, float] = (0.5, 2)
    names: list[str] | None = None
    levels: dict[str, list[int]] | None = None
    flag: bool = True
    inner: Inner = Inner()
    anything: Any = None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"number": 0.25, "count": 3, "kind": "b"},
        {"names": ["x"], "levels": {"x": [1]}, "anything": object()},
        {"inner": Inner(())},
    ],
)
def test_declared_types_pass(changes: dict[str, Any]) -> None:
    value = replace(Outer(), **changes)
    assert checked(value) is value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", "1"), ("number", True), ("number", float("nan")), ("number", float("inf")),
        ("count", 1.5), ("count", False), ("kind", "c"), ("pair", (1.0,)), ("pair", (1.0, "2")),
        ("pair", [0.5, 2]), ("names", ("x",)), ("names", ["x", 1]), ("levels", {1: [1]}),
        ("levels", {"x": 1}), ("levels", {"x": ["1"]}), ("flag", 1), ("inner", {"sizes": [1]}),
    ],
)  # fmt: skip
def test_other_types_are_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} of Outer is "):
        checked(replace(Outer(), **{name: value}))


def test_the_innermost_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"^sizes of Inner is "):
        checked(Outer(inner=Inner(("1",))))  # type: ignore[arg-type]
