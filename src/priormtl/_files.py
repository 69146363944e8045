"""write_whole: a file appears complete or not at all."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Write aside, bring to disk, then put in place; nothing stays after a failure."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".priormtl-")
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


def _umask() -> int:
    """Rights that new files do not get; reading them means setting them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
