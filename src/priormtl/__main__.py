"""The ``priormtl`` command, also as ``python -m priormtl``."""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec

from priormtl.cli.terminal import (
    Heartbeat,
    guard_streams,
    handle_signals,
    heartbeat,
    write_ascii,
)


def main() -> None:
    """Run the command line, or name the packages that it needs."""
    with handle_signals(), _open_streams():
        if any(find_spec(name) is None for name in ("typer", "rich")):
            sys.exit(
                "The priormtl command needs two packages: pip install 'priormtl[cli]'"
            )
        from priormtl.cli.main import app  # noqa: PLC0415

        try:
            app(prog_name="priormtl")
        finally:
            sys.stdout.flush()  # here, where it can still be answered


def _open_streams() -> AbstractContextManager[None]:
    """Guard the streams; in terminals also show that a silent command is working."""
    if sys.stderr is None or not sys.stderr.isatty():
        guard_streams()
        return nullcontext()
    heart = Heartbeat(partial(write_ascii, sys.stderr.fileno()))
    guard_streams(heart.clear)
    return heartbeat(heart)


if __name__ == "__main__":
    main()
