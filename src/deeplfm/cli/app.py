"""The ``deeplfm`` application.

Commands import what they need when they run, so that help and completion are instant.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import typer

import deeplfm
from deeplfm.cli import (
    backtests,
    benchmark,
    curves,
    demo,
    doctor,
    figures,
    fit,
    forecast,
    impute,
    listings,
    reproduce,
    update,
)
from deeplfm.cli.messages import (
    BAD_INPUT,
    INTERRUPTED,
    interrupt_on_sigterm,
    print_error,
    reported,
    usage_message,
)
from deeplfm.cli.outputs import check_no_input_is_replaced
from deeplfm.errors import DeepLFMError

Function = Callable[..., None]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def add_command(
    app: typer.Typer, function: Function, examples: Sequence[str] = (), name: str | None = None
) -> None:
    """Register a function as a command.

    A parameter whose type is a dataclass stands for one option per field, so that a group of options
    is declared once and shared by several commands.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[key]):
            groups[key] = hints[key]
            types = get_type_hints(hints[key], include_extras=True)
            parameters += [
                inspect.Parameter(f.name, _KEYWORD, default=f.default, annotation=types[f.name])
                for f in dataclasses.fields(hints[key])
            ]
        else:
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hints[key]))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        with reported(values.get("debug", False)):
            check_no_input_is_replaced(values)
            for key, group in groups.items():
                fields = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
                values[key] = group(**fields)
            function(**values)

    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    lines = ["[bold]Examples[/bold]", *(f"[green]{line}[/green]" for line in examples)]
    app.command(name, epilog="\n\n".join(lines) if examples else None)(command)


app = typer.Typer(name="deeplfm", pretty_exceptions_enable=False, rich_markup_mode="rich")
data_app = typer.Typer(no_args_is_help=False, rich_markup_mode="rich")
add_command(app, demo.demo, demo.EXAMPLES)
add_command(app, fit.fit, fit.EXAMPLES)
add_command(app, forecast.forecast, forecast.FORECAST_EXAMPLES)
add_command(app, impute.impute, impute.EXAMPLES)
add_command(app, forecast.evaluate, forecast.EVALUATE_EXAMPLES)
add_command(app, update.update, update.EXAMPLES)
add_command(app, backtests.backtest, backtests.BACKTEST_EXAMPLES)
add_command(app, backtests.compare, backtests.COMPARE_EXAMPLES)
add_command(app, backtests.tune, backtests.TUNE_EXAMPLES)
add_command(app, curves.components, curves.COMPONENTS_EXAMPLES)
add_command(app, curves.forces, curves.FORCES_EXAMPLES)
add_command(app, figures.plot, figures.EXAMPLES)
add_command(app, listings.info, listings.INFO_EXAMPLES)
add_command(app, listings.models, listings.MODELS_EXAMPLES)
add_command(app, reproduce.reproduce, reproduce.EXAMPLES)
add_command(app, benchmark.benchmark, benchmark.EXAMPLES)
add_command(data_app, listings.list_data, listings.LIST_EXAMPLES, "list")
add_command(data_app, listings.fetch_data, listings.FETCH_EXAMPLES, "fetch")
app.add_typer(data_app, name="data", help="List and fetch example data sets.")
add_command(app, doctor.doctor, doctor.EXAMPLES)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"deeplfm {deeplfm.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def deeplfm_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Deep latent force models: forecast series and fill gaps, with calibrated intervals."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the entry point of the ``deeplfm`` script."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        print_error(
            "torchrun: the command line runs in one process, and torchrun has started it. Start deeplfm "
            "itself (--jobs), or give torchrun a script that calls DeepLFMRegressor.fit."
        )
        sys.exit(BAD_INPUT)
    try:
        with interrupt_on_sigterm():
            code = app(arguments, prog_name="deeplfm", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        print_error("interrupted.")
        sys.exit(INTERRUPTED)
    except Exception as error:
        message = str(error) if isinstance(error, DeepLFMError) else usage_message(error)
        if message is None:
            raise
        print_error(message)
        sys.exit(BAD_INPUT)
    sys.exit(code or 0)
