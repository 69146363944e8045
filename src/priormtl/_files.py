"""write_whole: a file appears complete or not at all."""

import os
import tempfile
from pathlib import Path

__all__ = ["remove_leftovers", "write_whole"]

PREFIX = ".priormtl-"


def write_whole(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Write aside, bring to disk, then put in place; nothing stays after a failure."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(
        dir=target.parent, prefix=f"{PREFIX}{os.getpid()}-"
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were writing aside; others go on."""
    for path in folder.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX).split("-")[0]
        if number.isdigit() and not _lives(int(number)):
            path.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _umask() -> int:
    """Rights that new files do not get; reading them means setting them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
