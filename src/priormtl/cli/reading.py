"""Tables as commands read them, with a bar in terminals."""

from pathlib import Path
from typing import Any

from priormtl import engines
from priormtl.cli.columns import Columns
from priormtl.estimators import show_progress

__all__ = ["read_table", "summarize_table"]


def summarize_table(
    data: Path,
    where: str | None,
    columns: Columns,
    *,
    shards: Path | None = None,
    **folds: Any,
) -> engines.Summary:
    """Statistics of a table, however large; ``folds`` as the engines take them."""
    source = engines.open_source(data, where)
    _refuse_text(source, columns.target)
    settings = columns.settings() | folds
    with show_progress(None, None, "reading", source.size, "bytes") as advance:
        if shards is None:
            return engines.summarize(source, **settings, advance=advance)
        return engines.summarize_sharded(source, shards, **settings, advance=advance)


def read_table(data: Path, where: str | None, columns: Columns) -> engines.Rows:
    """All rows of a table, in memory."""
    source = engines.open_source(data, where)
    settings = columns.settings()
    with show_progress(None, None, "reading", source.size, "bytes") as advance:
        return engines.read_rows(source, **settings, advance=advance)


def _refuse_text(source: engines.Source, target: str) -> None:
    if source.holds_text(target):
        raise ValueError(
            f"{source.name}: column {target!r} must hold numbers to be a target: it "
            "holds text; for two classes there is 'priormtl fit --classify'."
        )
