"""priormtl merge: statistics of several sites as one."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from priormtl.cli.columns import Json
from priormtl.cli.errors import one_sentence, refuse_folder
from priormtl.cli.plain import to_json
from priormtl.cli.words import count

__all__ = ["merge"]


def merge(
    files: Annotated[list[Path], Argument(help="Files of 'priormtl stats'.")],
    out: Annotated[Path, Option(dir_okay=False, help="File of statistics to write.")],
    as_json: Json = False,
) -> None:
    """Add statistics of different rows: the result is that of all rows together.

    Tasks are matched by name; features must be the same everywhere.

    Example: priormtl merge north.stats south.stats --out all.stats
    """
    from priormtl.cli.sites import add_sites  # noqa: PLC0415

    with one_sentence():
        refuse_folder(out)
        whole = add_sites(files)
        whole.save(out)
    d, m = whole.shape
    if as_json:
        told = {"file": str(out), "files": len(files), "tasks": m, "features": d}
        echo(to_json(told | {"weight": float(whole.weight.sum())}))
        return
    counts = (len(files), "file"), (m, "task"), (d, "feature")
    words = ", ".join(count(n, noun) for n, noun in counts)
    echo(f"{words}, weight {whole.weight.sum():g}.")
    echo(f"wrote {out}")
