"""The ``priormtl`` command, also as ``python -m priormtl``."""

import signal
import sys
from importlib.util import find_spec
from types import FrameType


def main() -> None:
    """Run the command line, or say what it needs."""
    if any(find_spec(name) is None for name in ("typer", "rich")):
        sys.exit("The priormtl command needs two packages: pip install 'priormtl[cli]'")
    from priormtl.cli.main import app  # noqa: PLC0415

    signal.signal(signal.SIGTERM, _end)
    _print_what_can_be()
    app(prog_name="priormtl")


def _end(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that what was being written aside is removed."""
    sys.exit(128 + number)


def _print_what_can_be() -> None:
    """Print a question mark for letters that the terminal or file does not know."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
