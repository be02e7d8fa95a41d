"""Models as text: ``trend + season(12) + level``, on the command line and in files."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from typing import Any

from deeplfm.errors import ConfigError
from deeplfm.features import SYSTEMS
from deeplfm.terms.base import NAMED_MODELS, TERMS, Declared, NamedModel, Term
from deeplfm.terms.sums import Sum

_DURATION = re.compile(r"(?<![\w.'\"])(\d+(?:\.\d+)?[A-Za-z]+)(?![\w'\"])")  # 1D, 12h


def parse(text: str) -> Sum | NamedModel:
    """The model that a text declares.

    Terms are added with ``+``; arguments are written as in Python, with durations and names that need no
    quotes: ``season(1D)``, ``deep(3, 3, system=ode2)``, ``level(damped)``.

    >>> parse("trend + season(1D) + level(damped)")
    Trend() + Season('1D') + LocalLevel(damped=True)
    >>> parse("paper(hidden=6)")
    Paper((6,))
    """
    try:
        tree = ast.parse(_DURATION.sub(r"'\1'", text.strip()), mode="eval").body
    except SyntaxError as error:
        raise ConfigError(
            f"model: {text!r} cannot be read ({error.msg}). Write terms with a plus between them, such "
            "as 'trend + season(12) + level'."
        ) from None
    parts = [_read(node, text) for node in _summands(tree)]
    if len(parts) == 1 and isinstance(parts[0], NamedModel):
        return parts[0]
    terms = [part for part in parts if isinstance(part, Term)]
    if len(terms) != len(parts):
        raise ConfigError(
            f"model: {text!r} adds a term to a whole model. Use one of "
            f"{', '.join(NAMED_MODELS)} alone, or a sum of {', '.join(TERMS)}."
        )
    return Sum(tuple(terms))


def to_json(model: Any) -> Any:
    """A model, a name or a dict of candidates as plain data."""
    if isinstance(model, dict):
        return {name: to_json(item) for name, item in model.items()}
    return str(model)


def from_json(data: Any) -> Any:
    """The model that :func:`to_json` wrote; a name stays a name."""
    if isinstance(data, dict):
        return {name: from_json(item) for name, item in data.items()}
    try:
        return parse(data)
    except ConfigError:
        if re.fullmatch(r"[A-Za-z -]+", data):
            return data
        raise


def _summands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]


def _read(node: ast.expr, text: str) -> Declared:
    """One term of a text, with its arguments."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name):
        raise ConfigError(
            f"model: {ast.unparse(node)!r} in {text!r} is no term. Write a name, with arguments in "
            f"parentheses where it takes some: {', '.join(TERMS)}."
        )
    kind = _kind(call.func.id, text)
    fields = [item.name for item in dataclasses.fields(kind)]
    values: list[Any] = []
    arguments: dict[str, Any] = {}
    for item in call.args:
        if isinstance(item, ast.Name) and item.id in fields:  # level(damped)
            arguments[item.id] = True
        else:
            values.append(_value(item, text))
    if fields and fields[0] == "hidden":  # deep(3, 3)
        if values and not isinstance(values[0], tuple):
            values = [tuple(values)]
    arguments |= {item.arg: _value(item.value, text) for item in call.keywords if item.arg}
    unknown = [name for name in arguments if name not in fields]
    if unknown or len(values) > len(fields):
        raise ConfigError(
            f"model: {kind.term_name} in {text!r} takes {', '.join(fields) or 'no arguments'}; found "
            f"{', '.join(unknown) or f'{len(values)} values'}."
        )
    arguments = dict(zip(fields, values, strict=False)) | arguments
    if isinstance(arguments.get("hidden"), int):
        arguments["hidden"] = (arguments["hidden"],)
    return kind(**arguments)


def _kind(name: str, text: str) -> type[Declared]:
    known: dict[str, type[Declared]] = {**TERMS, **NAMED_MODELS}
    by_class = {kind.__name__.lower(): kind for kind in known.values()}
    kind = known.get(name.lower()) or by_class.get(name.lower())
    if kind is not None:
        return kind
    close = difflib.get_close_matches(name.lower(), [*known, *by_class], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    if name in SYSTEMS:
        hint = f" It is a system: name it in a term, such as deep(system={name})."
    raise ConfigError(
        f"model: {name!r} in {text!r} is no term.{hint} Terms: {', '.join(TERMS)}; whole models: "
        f"{', '.join(NAMED_MODELS)}."
    )


def _value(node: ast.expr, text: str) -> Any:
    """A literal, a nested term, true or false, or another bare word as a string."""
    if isinstance(node, ast.Name):
        if node.id.lower() in ("true", "false"):
            return node.id.lower() == "true"
        known = {**TERMS, **NAMED_MODELS}
        return _read(node, text) if node.id.lower() in known else node.id
    if isinstance(node, ast.Call):
        return _read(node, text)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ConfigError(
            f"model: the argument {ast.unparse(node)!r} in {text!r} is no number, text or term."
        ) from None
