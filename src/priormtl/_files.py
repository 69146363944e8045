"""Files and folders that appear complete or not at all.

Each is written under a temporary name beside its place and renamed at the end.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".priormtl-"


def write_whole(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Write a file; nothing stays after a failure."""
    with write_aside(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def write_aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file to write, which is synced and put in place at the end."""
    target = Path(path)
    if target.is_symlink():  # the link stays, and its file is replaced
        target = target.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{target} must be in a folder that exists: {target.parent} does not; make "
            "it first."
        )
    if target.exists() and not target.is_file():
        kind = "folder" if target.is_dir() else "device or pipe"
        raise OSError(f"{target} must be a file to be written: it is a {kind}.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{PREFIX}{os.getpid()}-")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def write_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is put in place at the end."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"folder must be in a folder that exists: {target.parent} does not."
        )
    is_empty = target.is_dir() and not any(target.iterdir())
    if not is_empty and (target.exists() or target.is_symlink()):
        raise FileExistsError(
            f"folder must be new or empty: {target} is not; remove it, or name another."
        )
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield aside
        os.chmod(aside, 0o777 & ~_umask())
        if target.is_dir():
            target.rmdir()
        os.replace(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that were killed, but not of living ones."""
    for path in folder.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX).split("-")[0]
        if not number.isdigit():
            continue
        try:
            os.kill(int(number), 0)
        except PermissionError:  # somebody else's, which lives
            continue
        except ProcessLookupError:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _umask() -> int:
    """File mode mask; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
