"""The ``priormtl`` command, also as ``python -m priormtl``."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say what it needs."""
    if any(find_spec(name) is None for name in ("typer", "rich")):
        sys.exit("The priormtl command needs two packages: pip install 'priormtl[cli]'")
    from priormtl.cli.main import app  # noqa: PLC0415

    app(prog_name="priormtl")


if __name__ == "__main__":
    main()
