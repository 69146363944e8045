"""The command group: one file per command, named here and loaded when it is used."""

from typing import Annotated

from typer import Exit, Option, Typer, echo

from priormtl import __version__
from priormtl.cli.lazy import SETTINGS, LazyGroup

__all__ = ["COMMANDS", "app"]

COMMANDS = (
    "demo",
    "fit",
    "predict",
    "report",
    "compare",
    "reproduce",
    "stats",
    "merge",
    "data",
)


class Commands(LazyGroup):
    """All commands."""

    names = COMMANDS


app = Typer(cls=Commands, no_args_is_help=True, **SETTINGS)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(__version__)
        raise Exit


@app.callback()
def priormtl(
    version: Annotated[
        bool,
        Option("--version", callback=_show_version, is_eager=True, help="Show it."),
    ] = False,
) -> None:
    """Multi-task learning with prior information.

    Example: priormtl demo

    Example: priormtl fit exams.csv --task school --target score --out exams.model
    """
