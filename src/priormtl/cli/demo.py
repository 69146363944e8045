"""priormtl demo: what a prior is worth, in one minute."""

from pathlib import Path
from typing import Annotated

from typer import Option

from priormtl.cli.main import exit_on_error, require_extra


def demo(
    out: Annotated[
        Path, Option(file_okay=False, help="Folder for an example and its report.")
    ] = Path("demo"),
) -> None:
    """Fit related tasks to few rows, with and without prior, and write a report.

    Example: priormtl demo

    Example: priormtl demo --out first-look
    """
    with require_extra("demo", "cli"):
        from priormtl.cli.demonstration import show_demonstration
    with exit_on_error():
        show_demonstration(out)
