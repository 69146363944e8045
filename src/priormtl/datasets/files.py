"""Files of data sets: where they lie, what they must hold, how they are written.

What is verified is the contents, array by array: the digest of an array is the SHA-256
of its dtype, its shape and its bytes. The bytes of a file itself depend on the program
that packed it, so that a converted original would never match.
"""

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from priormtl._files import write_whole
from priormtl.exceptions import DataFileError, MissingDataError

__all__ = [
    "Arrays",
    "Expected",
    "Folder",
    "Source",
    "check_arrays",
    "digest_array",
    "find_home",
    "read_arrays",
    "write_arrays",
]

VARIABLE = "PRIORMTL_DATA"
MOST_BYTES = 2**28

Arrays = dict[str, np.ndarray]
Folder = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Expected:
    """What an array of a file must be."""

    shape: tuple[int, ...]
    dtype: str
    digest: str


@dataclass(frozen=True)
class Source:
    """A data set: its file, the originals it is made from, and what it holds."""

    name: str
    title: str
    file: str
    arrays: Mapping[str, Expected]
    shape: tuple[int, int]  # rows and features that its loader gives
    n_tasks: int
    kind: str
    origin: str  # where the originals are offered
    originals: tuple[str, ...]  # their names, as `priormtl data convert` takes them
    convert: Callable[[Sequence[Path]], Arrays]
    extras: tuple[str, ...] = ()  # arrays that no public original has

    @property
    def required(self) -> tuple[str, ...]:
        """Arrays without which the file is of no use."""
        return tuple(name for name in self.arrays if name not in self.extras)

    @property
    def command(self) -> str:
        """What turns the originals into the file."""
        return f"priormtl data convert {self.name} {' '.join(self.originals)}"


def find_home(data_home: Folder = None) -> Path:
    """The folder of data sets: the argument, or else the environment's."""
    named = os.environ.get(VARIABLE) if data_home is None else data_home
    if not named:
        raise MissingDataError(
            f"{VARIABLE} is not set; set it to the folder of data sets, or name the "
            "folder by data_home= (in a shell by --home or --to)."
        )
    return Path(named).expanduser()


def read_arrays(
    source: Source,
    names: Sequence[str] | None = None,
    *,
    data_home: Folder = None,
    verify: bool = True,
) -> Arrays:
    """Arrays of a data set's file, checked against what they must be."""
    folder = find_home(data_home)
    path = folder / source.file
    if not path.is_file():
        raise MissingDataError(
            f"{source.file} is not in the folder {folder}; get {source.originals[0]} "
            f"({source.origin}), then run '{source.command} --to {folder}'."
        )
    wanted = source.required if names is None else names
    arrays = _read_zip(path, wanted)
    _refuse_gaps(source, path, [name for name in wanted if name not in arrays])
    for name, array in arrays.items():
        _check(f"{path}: {name}", array, source.arrays[name], verify=verify)
    return arrays


def digest_array(array: np.ndarray) -> str:
    """SHA-256 of dtype, shape and bytes (little-endian, row by row)."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return sha256(
        f"{plain.dtype.str} {plain.shape}\n".encode() + plain.tobytes()
    ).hexdigest()


def check_arrays(source: Source, arrays: Arrays) -> bool:
    """Whether digests match; a wrong shape or dtype is an error."""
    for name, array in arrays.items():
        _check(name, array, source.arrays[name], verify=False)
    return all(
        digest_array(array) == source.arrays[name].digest
        for name, array in arrays.items()
    )


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write all or nothing: the file appears complete or not at all."""
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_whole(path, buffer.getbuffer())


def _read_zip(path: Path, names: Sequence[str]) -> Arrays:
    with path.open("rb") as packed:  # no more than any of our files could hold
        content = BytesIO(packed.read(MOST_BYTES))
    try:
        _refuse_bomb(content)
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in names if name in file.files}
    except Exception as error:  # what a damaged archive raises is not documented
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFileError(
            f"{path} is damaged or no NumPy archive ({reason}); use an intact copy, or "
            "convert the original again."
        ) from None


def _refuse_bomb(content: BytesIO) -> None:
    with zipfile.ZipFile(content) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES:
        raise ValueError(f"it would unpack to {size} bytes")
    content.seek(0)


def _refuse_gaps(source: Source, path: Path, lacking: list[str]) -> None:
    if not lacking:
        return
    way_out = "use an intact copy, or convert the original again."
    if set(lacking) <= set(source.extras):
        way_out = f"{' '.join(source.originals)} does not hold them."
    raise DataFileError(f"{path} has no array {', '.join(lacking)}; {way_out}")


def _check(place: str, array: np.ndarray, expected: Expected, *, verify: bool) -> None:
    came: Any = (array.shape, array.dtype.str)
    if came != (expected.shape, expected.dtype):
        raise DataFileError(
            f"{place} must have shape {expected.shape} and dtype {expected.dtype}: got "
            f"{array.shape} and {array.dtype.str}; use the original named by "
            "'priormtl data'."
        )
    digest = digest_array(array) if verify else expected.digest
    if digest != expected.digest:
        raise DataFileError(
            f"{place} has other contents than published: its digest is {digest}, not "
            f"{expected.digest}; use an intact copy, or verify=False to accept it."
        )
