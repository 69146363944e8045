"""The ``priormtl`` command, also as ``python -m priormtl``."""

import sys
from importlib.util import find_spec

from priormtl.cli.signals import orderly_end
from priormtl.cli.streams import guard_streams


def main() -> None:
    """Run the command line, or say what it needs."""
    guard_streams()
    with orderly_end():
        if any(find_spec(name) is None for name in ("typer", "rich")):
            sys.exit(
                "The priormtl command needs two packages: pip install 'priormtl[cli]'"
            )
        from priormtl.cli.main import app  # noqa: PLC0415

        try:
            app(prog_name="priormtl")
        finally:
            sys.stdout.flush()  # here, where it can still be answered


if __name__ == "__main__":
    main()
