"""One file for arrays and plain settings: safetensors with a digest at its end.

The file is a valid safetensors file, so other tools can read the arrays. Its header
carries a JSON text of settings; its last 32 bytes are a digest of all bytes before
them. Arrays are written from and read into their own memory, without further copies.
Nothing is returned before sizes and the digest are checked, and what is returned are
arrays and plain values only: no types, no code. The reader is our own because it must
refuse any changed byte, which the format itself does not ask for.
"""

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from priormtl._files import write_aside
from priormtl.exceptions import MissingFileError, ModelFileError, suggest_file

Settings: TypeAlias = dict[str, Any]  # values that JSON can hold

FORMAT_VERSION = 1
MOST_FILE_BYTES = 64 * 2**30
DIGEST_BYTES = 32
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

Arrays = Mapping[str, np.ndarray]
Piece = bytes | memoryview


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    settings: Mapping[str, object],
    arrays: Arrays,
) -> None:
    """Write all or nothing: the file appears complete or not at all."""
    pieces = _pieces(kind, settings, arrays)
    first = next(pieces)  # what cannot be saved is refused before a file is made
    with write_aside(path) as temporary, temporary.open("wb") as file:
        file.write(first)
        file.writelines(pieces)


def read_archive(
    path: str | os.PathLike[str], kind: str
) -> tuple[Settings, dict[str, np.ndarray]]:
    """Settings and arrays of a file that ``write_archive`` wrote, unchanged since."""
    source = Path(path)
    if not source.is_file():
        saved = f"saved {kind}" if kind.endswith("s") else f"a saved {kind}"
        words = f"{source} is not a file; give the path of {saved}."
        if source.exists():
            raise ModelFileError(words)
        raise MissingFileError(words + suggest_file(source))
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_FILE_BYTES:
            raise ModelFileError(f"{source} is larger than {MOST_FILE_BYTES} bytes.")
        try:
            return _read(file, size, kind)
        except ModelFileError as error:
            raise ModelFileError(f"{source}: {error}") from None


def pack_archive(kind: str, settings: Mapping[str, object], arrays: Arrays) -> bytes:
    return b"".join(_pieces(kind, settings, arrays))


def unpack_archive(content: bytes, kind: str) -> tuple[Settings, dict[str, np.ndarray]]:
    return _read(BytesIO(content), len(content), kind)


def _pieces(
    kind: str, settings: Mapping[str, object], arrays: Arrays
) -> Iterator[Piece]:
    meta = {"kind": kind, "version": FORMAT_VERSION, "settings": dict(settings)}
    header: Settings = {"__metadata__": {"priormtl": _to_json(meta)}}
    offset = 0
    for name, array in {**arrays, "digest": np.zeros(DIGEST_BYTES, np.uint8)}.items():
        header[name] = {
            "dtype": NAMES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape) or [1],
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = _to_json(header).encode()
    text += b" " * (-len(text) % 8)  # arrays start at a multiple of 8
    digest = _new_digest()
    first = struct.pack("<Q", len(text)) + text
    digest.update(first)
    yield first
    for array in arrays.values():
        plain = np.ascontiguousarray(array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        content = plain.reshape(-1).view(np.uint8).data
        digest.update(content)
        yield content
    yield digest.digest()


def _read(
    file: BinaryIO, size: int, kind: str
) -> tuple[Settings, dict[str, np.ndarray]]:
    """Read header and arrays in one pass over the file."""
    length_bytes = 8
    if size < length_bytes + 2 + DIGEST_BYTES:
        raise ModelFileError("the file is too short to be a priormtl file.")
    prefix = file.read(length_bytes)
    (length,) = struct.unpack("<Q", prefix)
    body = size - length_bytes - length - DIGEST_BYTES
    if length > 100_000_000 or body < 0:
        raise ModelFileError("not a priormtl file, or it was cut off.")
    text = file.read(length)
    header = _from_json(text)
    if not isinstance(header, dict):
        raise ModelFileError("not a priormtl file.")
    digest = _new_digest()
    digest.update(prefix)
    digest.update(text)
    settings, arrays, fault = Settings(), dict[str, np.ndarray](), None
    try:
        settings = _read_settings(header.pop("__metadata__", None), kind)
        header.pop("digest", None)
        for name, entry in header.items():
            _check_entry(name, entry, body)
        # Arrays must follow one another from the first byte to the last.
        places = {name: entry["data_offsets"] for name, entry in header.items()}
        ends = [0, *(end for _, end in sorted(places.values()))]
        if [begin for begin, _ in sorted(places.values())] + [body] != ends:
            raise ModelFileError("its arrays do not fill the file.")
        for name in sorted(header, key=places.__getitem__):
            array = np.empty(header[name]["shape"], DTYPES[header[name]["dtype"]])
            content = array.reshape(-1).view(np.uint8)
            if file.readinto(content) < len(content):  # type: ignore[attr-defined]
                raise ModelFileError("the file was cut off while it was read.")
            digest.update(content.data)
            body -= len(content)
            arrays[name] = array
    except ModelFileError as error:
        fault = error
    # A damaged file is called damaged, whatever else is wrong with it.
    while body > 0 and (chunk := file.read(min(body, 2**20))):
        digest.update(chunk)
        body -= len(chunk)
    if digest.digest() != file.read(DIGEST_BYTES):
        raise ModelFileError(
            "the file is damaged or was changed: its digest does not match; "
            "use an intact copy or save the model again."
        )
    if fault is not None:
        raise fault
    return settings, {name: arrays[name] for name in header}


def _read_settings(metadata: object, kind: str) -> Settings:
    text = metadata.get("priormtl") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("not a priormtl file.")
    meta = _from_json(text)
    if not isinstance(meta, dict) or not isinstance(meta.get("settings"), dict):
        raise ModelFileError("not a priormtl file.")
    if type(meta.get("version")) is not int or meta["version"] != FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format {meta.get('version')!r}, this version reads "
            f"{FORMAT_VERSION}: upgrade priormtl."
        )
    if meta.get("kind") != kind:
        raise ModelFileError(f"the file holds {meta.get('kind')!r}, not {kind!r}.")
    settings: Settings = meta["settings"]
    return settings


def _check_entry(name: str, entry: object, size: int) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"array {name!r} has an invalid description.")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise ModelFileError(f"array {name!r} has an invalid shape or position.")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise ModelFileError(f"array {name!r} has an unknown type.")
    dtype = np.dtype(DTYPES[entry["dtype"]])
    begin, end = offsets
    count = math.prod(shape) * dtype.itemsize
    if not 0 <= begin <= end <= size or end - begin != count:
        raise ModelFileError(f"array {name!r} does not lie inside the file.")
    if math.prod(max(1, side) for side in shape) > MOST_FILE_BYTES:
        raise ModelFileError(f"array {name!r} has an invalid shape or position.")


def _are_sizes(values: object) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= 8
        and all(type(v) is int and 0 <= v <= MOST_FILE_BYTES for v in values)
    )


def _new_digest() -> blake2b:
    return blake2b(digest_size=DIGEST_BYTES, person=b"priormtl")


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _from_json(text: bytes | str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        raise ModelFileError("not a priormtl file, or it was cut off.") from None


def _distinct(pairs: list[tuple[str, object]]) -> Settings:
    """Table of the pairs; a key that comes twice is refused."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key comes twice")
    return table
