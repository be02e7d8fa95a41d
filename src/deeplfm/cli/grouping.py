"""Commands from functions: groups of options are dataclasses, declared once and used by many.

A parameter whose type is a dataclass stands for an option per field. The function gets the whole
group; the command line shows the options.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import typer

from deeplfm.cli.reporting import reported

Function = Callable[..., None]


def add_command(
    app: typer.Typer, function: Function, name: str | None = None, examples: Sequence[str] = ()
) -> None:
    """Make a function a command, with its examples at the end of its help.

    Args:
        app: where the command goes.
        function: its docstring is the help; its parameters are arguments, options and groups.
        name: of the command; by default the function's.
        examples: command lines that work as they stand.
    """
    epilog = "\n\n".join(
        ["[bold]Examples[/bold]", *(f"[green]{line}[/green]" for line in examples)]
    )
    app.command(name, epilog=epilog if examples else None)(_flat(function))


def _flat(function: Function) -> Function:
    """The function as typer wants it: no groups, and mistakes reported as a user should see them."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _options(hints[name])
        else:
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hints[name]))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        with reported(values.get("debug", False)):
            for name, group in groups.items():
                fields = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
                values[name] = group(**fields)
            function(**values)

    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    command.__annotations__ = annotations
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(field.name, _KEYWORD, default=field.default, annotation=hints[field.name])
        for field in dataclasses.fields(group)
    ]
