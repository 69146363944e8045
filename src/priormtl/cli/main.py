"""The command group: one file per command."""

from typing import Annotated

from typer import Exit, Option, Typer, echo

from priormtl import __version__
from priormtl.cli.compare import compare
from priormtl.cli.data import app as data
from priormtl.cli.demo import demo
from priormtl.cli.merge import merge
from priormtl.cli.report import report
from priormtl.cli.reproduce import reproduce
from priormtl.cli.stats import stats

__all__ = ["app"]

app = Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(compare)
app.command()(report)
app.command()(reproduce)
app.command()(stats)
app.command()(merge)
app.add_typer(data, name="data")


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
    """
