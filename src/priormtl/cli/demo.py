"""priormtl demo: the product's first minute."""

from pathlib import Path
from typing import Annotated

from typer import Option

from priormtl.cli.errors import needing, one_sentence

__all__ = ["demo"]


def demo(
    out: Annotated[
        Path, Option(file_okay=False, help="Folder for an example and its report.")
    ] = Path("demo"),
) -> None:
    """Fit related tasks from few rows, with and without prior, and write a report.

    Example: priormtl demo

    Example: priormtl demo --out first-look
    """
    with needing("demo", "cli"):
        from priormtl.cli.demonstration import show_demonstration  # noqa: PLC0415
    with one_sentence():
        show_demonstration(out)
