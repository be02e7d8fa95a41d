"""The application: its commands, and what happens to a command line that cannot be understood.

Commands import what they need when they run, so that help and completion are instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import deeplfm
from deeplfm.cli import (
    data,
    demo,
    doctor,
    evaluate,
    fit,
    forces,
    forecast,
    impute,
    info,
    plot,
    reproduce,
)
from deeplfm.cli.grouping import add_command
from deeplfm.cli.reporting import BAD_INPUT, INTERRUPTED, complain, usage_message
from deeplfm.errors import DeepLFMError

app = typer.Typer(name="deeplfm", pretty_exceptions_enable=False, rich_markup_mode="rich")
data_app = typer.Typer(no_args_is_help=False, rich_markup_mode="rich")
add_command(app, demo.demo, examples=demo.EXAMPLES)
add_command(app, fit.fit, examples=fit.EXAMPLES)
add_command(app, forecast.forecast, examples=forecast.EXAMPLES)
add_command(app, impute.impute, examples=impute.EXAMPLES)
add_command(app, evaluate.evaluate, examples=evaluate.EXAMPLES)
add_command(app, forces.forces, examples=forces.EXAMPLES)
add_command(app, plot.plot, examples=plot.EXAMPLES)
add_command(app, info.info, examples=info.EXAMPLES)
add_command(app, reproduce.reproduce, examples=reproduce.EXAMPLES)
add_command(data_app, data.list_data, "list", examples=data.LIST_EXAMPLES)
add_command(data_app, data.fetch_data, "fetch", examples=data.FETCH_EXAMPLES)
app.add_typer(data_app, name="data", help="Data sets that are known by name.")
add_command(app, doctor.doctor, examples=doctor.EXAMPLES)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"deeplfm {deeplfm.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def deeplfm_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Deep latent force models: forecasts, filled gaps and hidden forces, with honest intervals."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the entry point of the ``deeplfm`` script."""
    try:
        code = app(arguments, prog_name="deeplfm", standalone_mode=False)
    except typer.Abort:
        complain("interrupted.")
        sys.exit(INTERRUPTED)
    except Exception as error:
        message = str(error) if isinstance(error, DeepLFMError) else usage_message(error)
        if message is None:
            raise
        complain(message)
        sys.exit(BAD_INPUT)
    sys.exit(code or 0)
