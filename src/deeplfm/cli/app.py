"""The application: its commands, and what happens to a command line that cannot be understood.

Commands import what they need when they run, so that help and completion are instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import deeplfm
from deeplfm.cli.demo import demo
from deeplfm.cli.reporting import BAD_INPUT, complain

app = typer.Typer(
    name="deeplfm", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)
app.command()(demo)


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
    except Exception as error:
        message = getattr(error, "format_message", None)  # usage errors, whoever's click it is
        if message is None:
            raise
        complain(f"{message().rstrip('.')}. See deeplfm --help.")
        sys.exit(BAD_INPUT)
    sys.exit(code or 0)
