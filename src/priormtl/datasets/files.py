"""Files of data sets: where they are, what they must hold, how they are converted.

The contents are verified array by array: the digest of an array is the SHA-256 of its
dtype, shape and bytes. The bytes of a file itself depend on the program that packed it,
so those of a converted original would never match.

The second half reads the public formats of the originals: MATLAB files, IDX images and
tables of text.
"""

import gzip
import math
import os
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from priormtl._files import write_whole
from priormtl.exceptions import DataFileError, MissingDataError

MOST_BYTES = 2**28  # more than any file or original holds

Arrays = dict[str, np.ndarray]
Kind = Literal["regression", "classification"]
Folder = str | os.PathLike[str] | None


class Expected(NamedTuple):
    """What an array of a file must be."""

    shape: tuple[int, ...]
    dtype: str
    digest: str


@dataclass(frozen=True)
class Source:
    """A data set: its file, the original files, and what it contains."""

    name: str
    title: str
    file: str
    arrays: Mapping[str, Expected]
    shape: tuple[int, int]  # rows and features that its loader returns
    n_tasks: int
    kind: Kind
    origin: str  # where the originals are published
    originals: tuple[str, ...]  # their names, as `priormtl data convert` takes them
    convert: Callable[[Sequence[Path]], Arrays]
    extras: tuple[str, ...] = ()  # arrays that are in no public original
    description: str = ""
    quirks: tuple[str, ...] = ()  # what to know before fitting

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name in self.arrays if name not in self.extras)

    @property
    def command(self) -> str:
        return f"priormtl data convert {self.name} {' '.join(self.originals)}"


NOTES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("sources.toml").read_text("utf-8")
)


def describe_source(name: str, convert: Callable[[Sequence[Path]], Arrays]) -> Source:
    """Source with the entries of ``sources.toml``."""
    entries: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in NOTES[name].items()
    }
    arrays = {}
    for key, text in entries.pop("arrays").items():
        shape, dtype, digest = text.split()
        arrays[key] = Expected(tuple(map(int, shape.split("x"))), dtype, digest)
    return Source(name=name, convert=convert, arrays=arrays, **entries)


def find_home(data_home: Folder = None) -> Path:
    """Folder of the data sets: the argument, else that of the environment."""
    named = os.environ.get("PRIORMTL_DATA") if data_home is None else data_home
    if not named:
        raise MissingDataError(
            "PRIORMTL_DATA is not set; set it to the folder of the data sets, or pass "
            "data_home= (in a shell --home or --to)."
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
    lacking = [name for name in wanted if name not in arrays]
    if lacking:
        way_out = "use an intact copy, or convert the original again."
        if set(lacking) <= set(source.extras):
            way_out = f"{' '.join(source.originals)} does not hold them."
        raise DataFileError(f"{path} has no array {', '.join(lacking)}; {way_out}")
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
    """Whether arrays of the right shapes hold what was published."""
    for name, array in arrays.items():
        _check(name, array, source.arrays[name], verify=False)
    return all(
        digest_array(array) == source.arrays[name].digest
        for name, array in arrays.items()
    )


def write_arrays(path: Path, arrays: Arrays) -> None:
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_whole(path, buffer.getbuffer())


def _read_zip(path: Path, names: Sequence[str]) -> Arrays:
    with path.open("rb") as packed:  # no more than any of our files could hold
        content = BytesIO(packed.read(MOST_BYTES))
    try:
        with zipfile.ZipFile(content) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it would unpack to {size} bytes")
        content.seek(0)
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in names if name in file.files}
    except Exception as error:  # what a damaged archive raises is not documented
        raise DataFileError(
            f"{path} is damaged or not a NumPy archive ({_reason(error)}); use an "
            "intact copy, or convert the original again."
        ) from None


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _check(place: str, array: np.ndarray, expected: Expected, *, verify: bool) -> None:
    if (array.shape, array.dtype.str) != (expected.shape, expected.dtype):
        raise DataFileError(
            f"{place} must have shape {expected.shape} and dtype {expected.dtype}: got "
            f"{array.shape} and {array.dtype.str}; use the original named by "
            "'priormtl data'."
        )
    digest = digest_array(array) if verify else expected.digest
    if digest != expected.digest:
        raise DataFileError(
            f"{place} differs from the published file: its digest is {digest}, not "
            f"{expected.digest}; use an intact copy, or verify=False to accept it."
        )


# Formats of the originals.


def take_files(originals: Sequence[Path], count: int, names: str) -> list[Path]:
    """The originals, if they are as many as needed and can be found."""
    if len(originals) != count:
        raise DataFileError(
            f"give {count} original file{'s' if count > 1 else ''} ({names}): got "
            f"{len(originals)}."
        )
    for path in originals:
        if not path.is_file():
            raise DataFileError(f"{path} is not a file; give the path of {names}.")
        if path.stat().st_size > MOST_BYTES:
            raise DataFileError(f"{path} is larger than any original.")
    return list(originals)


def read_mat(path: Path) -> dict[str, object]:
    from scipy.io import loadmat  # noqa: PLC0415 (not needed to load data sets)

    try:
        return dict(loadmat(path))
    except Exception as error:  # what a damaged file raises is not documented
        raise DataFileError(
            f"{path} cannot be read as a MATLAB file ({_reason(error)}); download it "
            "again."
        ) from None


def first_of(path: Path, variables: Mapping[str, object], *names: str) -> np.ndarray:
    for name in names:
        value = variables.get(name)
        if isinstance(value, np.ndarray):
            return value
    known = [name for name in variables if not name.startswith("__")]
    raise DataFileError(
        f"{path} has no variable {' or '.join(names)}; it holds {', '.join(known)}."
    )


def read_bytes(path: Path) -> bytes:
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(f"{path} is damaged ({error}); get it again.") from None
    if len(content) > MOST_BYTES:
        raise DataFileError(f"{path} unpacks to more than any original.")
    return content


def read_lines(path: Path) -> list[str]:
    try:
        lines = read_bytes(path).decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is not a plain text file.") from None
    return [line.strip() for line in lines if line.strip()]


def read_idx(path: Path) -> np.ndarray:
    """Unsigned bytes of an IDX file, plain or gzipped."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataFileError(f"{path} is not an IDX file of unsigned bytes.")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataFileError(f"{path} is cut off; download it again.")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != math.prod(shape):
        raise DataFileError(
            f"{path} must hold {shape} values: got {values.size}; download it again."
        )
    return values.reshape(shape)


def to_integers(place: str, values: object, dtype: str) -> np.ndarray:
    """The same values as integers of a small type; others are refused."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataFileError(f"{place} must hold numbers, one in each field.") from None
    limits = np.iinfo(dtype)
    whole = (numbers == np.floor(numbers)) & np.isfinite(numbers)
    if not np.all(whole & (numbers >= limits.min) & (numbers <= limits.max)):
        raise DataFileError(
            f"{place} must hold whole numbers from {limits.min} to {limits.max}."
        )
    return numbers.astype(dtype)


def flip_pixels(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images stored column by column as images stored row by row."""
    columns = pixels.reshape(-1, width, height)
    return np.ascontiguousarray(columns.transpose(0, 2, 1)).reshape(len(pixels), -1)


def cells(place: str, values: np.ndarray) -> list[Any]:
    if values.dtype != object:
        raise DataFileError(f"{place} must be a cell array.")
    return values.ravel().tolist()
