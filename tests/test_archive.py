"""One file for arrays and settings: exact, whole or absent, and nothing changed."""

import json
import os
import random
import struct
import tracemalloc
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from priormtl import archive
from priormtl.archive import pack_archive, read_archive, unpack_archive, write_archive
from priormtl.exceptions import ModelFileError

LAW = settings(max_examples=25, deadline=None, derandomize=True, database=None)
KIND = "test"
SETTINGS = {"lam": 0.1, "names": ["a", "b"], "nested": {"none": None, "yes": True}}
ARRAYS = {
    "coef": np.array([[1.5, -0.0], [np.nan, np.inf]]),
    "count": np.array([1, -(2**62)]),
    "flags": np.array([0, 255, 7], dtype=np.uint8),
}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.fixture
def intact(tmp_path):
    """Bytes of a small file."""
    write_archive(tmp_path / "intact", KIND, SETTINGS, ARRAYS)
    return (tmp_path / "intact").read_bytes()


@pytest.fixture
def refuses():
    """Whether content is refused as it must be; loading or crashing fails the test."""

    def check(content):
        try:
            unpack_archive(content, KIND)
        except ModelFileError:
            return True
        return False

    return check


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def peak_of(action):
    """Most memory held at once during the action."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def sealed(header, body=b"", length=None):
    """File with this header and a digest that fits."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    content = struct.pack("<Q", size) + text + body
    return content + blake2b(content, digest_size=32, person=b"priormtl").digest()


def metadata(**changes):
    """Metadata as the writer makes it, changed here and there."""
    meta = {"kind": KIND, "version": 1, "settings": {}} | changes
    return {"priormtl": json.dumps(meta)}


def entry(offsets, shape, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def header_of(**entries):
    return {"__metadata__": metadata(), **entries}


def read_bytes(tmp_path, content, kind=KIND):
    path = tmp_path / "file"
    path.write_bytes(content)
    return read_archive(path, kind)


def test_arrays_come_back_to_the_bit(tmp_path):
    write_archive(tmp_path / "a", KIND, SETTINGS, ARRAYS)
    settings_, arrays = read_archive(tmp_path / "a", KIND)
    assert settings_ == SETTINGS
    assert list(arrays) == list(ARRAYS)
    assert all(same_bits(arrays[name], ARRAYS[name]) for name in ARRAYS)


@LAW
@given(st.dictionaries(st.text(), PLAIN))
def test_plain_settings_come_back(tmp_path_factory, plain):
    path = tmp_path_factory.getbasetemp() / "settings"
    write_archive(path, KIND, plain, {})
    assert read_archive(path, KIND) == (plain, {})


@LAW
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from(["f8", "i8", "u1"]),
    st.integers(0, 10**6),
)
def test_any_shape_comes_back(tmp_path_factory, shape, dtype, seed):
    path = tmp_path_factory.getbasetemp() / "shapes"
    raw = np.random.default_rng(seed).bytes(
        int(np.prod(shape)) * np.dtype(dtype).itemsize
    )
    array = np.frombuffer(raw, dtype).reshape(shape)
    write_archive(path, KIND, {}, {"x": array, "y": array.T})
    arrays = read_archive(path, KIND)[1]
    assert same_bits(arrays["x"], array)
    assert same_bits(arrays["y"], np.ascontiguousarray(array.T))


def test_strided_and_swapped_arrays_come_back_by_value(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    strange = {"strided": array[::2, ::-1], "swapped": array.astype(">f8")}
    write_archive(tmp_path / "a", KIND, {}, strange)
    arrays = read_archive(tmp_path / "a", KIND)[1]
    np.testing.assert_array_equal(arrays["strided"], array[::2, ::-1])
    np.testing.assert_array_equal(arrays["swapped"], array)
    assert arrays["swapped"].dtype == np.dtype("<f8")


def test_loaded_arrays_can_be_written_to(tmp_path, intact):
    arrays = read_bytes(tmp_path, intact)[1]
    arrays["coef"][0, 0] = 3.0
    assert arrays["coef"][0, 0] == 3.0


def test_safetensors_reads_the_file(tmp_path):
    write_archive(tmp_path / "a", KIND, SETTINGS, ARRAYS)
    loaded = load_file(tmp_path / "a")
    assert set(loaded) == {*ARRAYS, "digest"}
    assert all(same_bits(loaded[name], ARRAYS[name]) for name in ARRAYS)


def test_the_same_content_gives_the_same_file(tmp_path, intact):
    write_archive(tmp_path / "again", KIND, SETTINGS, ARRAYS)
    assert (tmp_path / "again").read_bytes() == intact


def test_the_format_stays():
    arrays = {"x": np.arange(3.0), "none": np.zeros((2, 0)), "n": np.array([[7]])}
    content = pack_archive(KIND, {"a": [1, None, "é"]}, arrays)
    digest = "024641a125194c15"  # of files that earlier versions wrote
    assert blake2b(content, digest_size=8).hexdigest() == digest


def test_arrays_are_neither_written_nor_read_by_copies(tmp_path):
    array = np.ones(2**20)
    write = peak_of(lambda: write_archive(tmp_path / "a", KIND, {}, {"x": array}))
    read = peak_of(lambda: read_archive(tmp_path / "a", KIND))
    assert write < 0.1 * array.nbytes
    assert read < 1.1 * array.nbytes


def test_new_files_have_the_usual_rights(tmp_path):
    (tmp_path / "usual").touch()
    write_archive(tmp_path / "a", KIND, {}, {})
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_the_intact_file_loads(intact, refuses):
    assert not refuses(intact)


def test_every_truncation_is_refused(intact, refuses):
    assert all(refuses(intact[:length]) for length in range(len(intact)))


def test_every_changed_byte_is_refused(intact, refuses):
    for place in range(len(intact)):
        for change in (0x01, 0x80, 0xFF):
            mutant = bytearray(intact)
            mutant[place] ^= change
            assert refuses(bytes(mutant)), place


@pytest.mark.parametrize("tail", [b"\0", b" ", b"}", b"x" * 100])
def test_anything_appended_is_refused(intact, refuses, tail):
    assert refuses(intact + tail)
    assert refuses(tail + intact)


def test_two_files_in_one_are_refused(intact, refuses):
    assert refuses(intact + intact)


def flip(rng, content):
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)


def insert(rng, content):
    place = rng.randrange(len(content) + 1)
    content[place:place] = rng.randbytes(rng.randint(1, 9))


def delete(rng, content):
    place = rng.randrange(len(content))
    del content[place : place + rng.randint(1, 40)]


def swap(rng, content):
    a, b = rng.randrange(len(content)), rng.randrange(len(content))
    content[a], content[b] = content[b], content[a]


def splice(rng, content):
    a, b = rng.randrange(len(content)), rng.randrange(len(content))
    content[a : a + 30] = content[b : b + 30]


def zero_run(rng, content):
    place = rng.randrange(len(content))
    length = min(rng.randint(1, 40), len(content) - place)
    content[place : place + length] = bytes(length)


MUTATIONS = (flip, insert, delete, swap, splice, zero_run)


def test_random_mutants_are_refused(intact, refuses):
    rng = random.Random(7)
    for count in range(20_000):
        mutant = bytearray(intact)
        for _ in range(rng.randint(1, 3)):
            MUTATIONS[count % len(MUTATIONS)](rng, mutant)
        assert bytes(mutant) == intact or refuses(bytes(mutant)), count


def test_random_bytes_are_refused(refuses):
    rng = random.Random(8)
    assert all(refuses(rng.randbytes(rng.randrange(200))) for _ in range(1000))


def test_our_own_seal_is_accepted(tmp_path):
    header = header_of(x=entry([0, 16], [2]), y=entry([16, 24], [], "I64"))
    arrays = read_bytes(tmp_path, sealed(header, bytes(24)))[1]
    assert arrays["x"].tolist() == [0.0, 0.0]
    assert arrays["y"].shape == ()


HOSTILE_LENGTHS = [2**63, 2**64 - 1, 10**9, 2**32, 500]


@pytest.mark.parametrize("length", HOSTILE_LENGTHS)
def test_a_header_longer_than_the_file_is_refused(tmp_path, length):
    with pytest.raises(ModelFileError, match="not a priormtl file, or it was cut off"):
        read_bytes(tmp_path, sealed(header_of(), length=length))


@pytest.mark.parametrize(
    "entries",
    [
        {"x": entry([0, 24], [3])},
        {"x": entry([8, 24], [2])},
        {"x": entry([0, 16], [3])},
        {"x": entry([16, 0], [2])},
        {"x": entry([2**30, 2**30 + 16], [2])},
    ],
    ids=["beyond", "shifted", "shape", "backwards", "far"],
)
def test_arrays_outside_the_file_are_refused(tmp_path, entries):
    with pytest.raises(ModelFileError, match="'x' does not lie inside the file"):
        read_bytes(tmp_path, sealed(header_of(**entries), bytes(16)))


@pytest.mark.parametrize(
    "entries",
    [
        {"x": entry([0, 16], [2]), "y": entry([0, 16], [2])},
        {"x": entry([0, 16], [2]), "y": entry([8, 24], [2])},
        {"x": entry([0, 8], [1]), "y": entry([24, 32], [1])},
        {},
    ],
    ids=["twice", "overlap", "hole", "none"],
)
def test_arrays_must_fill_the_file_without_overlap(tmp_path, entries):
    with pytest.raises(ModelFileError, match="arrays do not fill the file"):
        read_bytes(tmp_path, sealed(header_of(**entries), bytes(32)))


BAD_SIZES = [[-1], [True, 2], [2.0], ["2"], [None], 2, None, {"0": 2}, [1] * 9, [2**70]]


@pytest.mark.parametrize("shape", BAD_SIZES, ids=repr)
def test_impossible_shapes_are_refused(tmp_path, shape):
    header = header_of(x=entry([0, 16], shape))
    with pytest.raises(ModelFileError, match="'x' has an invalid shape or position"):
        read_bytes(tmp_path, sealed(header, bytes(16)))


@pytest.mark.parametrize(
    "offsets", [[0], [], [0, 8, 16], [False, 16], [-16, 0], [0.0, 16.0], None, "08"]
)
def test_impossible_places_are_refused(tmp_path, offsets):
    header = header_of(x=entry(offsets, [2]))
    with pytest.raises(ModelFileError, match="'x' has an invalid shape or position"):
        read_bytes(tmp_path, sealed(header, bytes(16)))


def test_an_empty_array_of_impossible_size_is_refused(tmp_path):
    header = header_of(x=entry([0, 0], [0, 2**36, 2**36]))
    with pytest.raises(ModelFileError, match="'x'"):
        read_bytes(tmp_path, sealed(header))


@pytest.mark.parametrize("dtype", ["F16", "BOOL", "O", "<f8", "", None, 8, ["F64"]])
def test_other_types_are_refused(tmp_path, dtype):
    header = header_of(x=entry([0, 16], [2], dtype))
    with pytest.raises(ModelFileError, match="'x' has an unknown type"):
        read_bytes(tmp_path, sealed(header, bytes(16)))


BAD_ENTRIES = [None, [], "x", 3, {}, {"dtype": "F64"}, entry([0, 0], [0]) | {"more": 1}]


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_entries_that_describe_no_array_are_refused(tmp_path, bad):
    with pytest.raises(ModelFileError, match="'x' has an invalid description"):
        read_bytes(tmp_path, sealed(header_of(x=bad)))


@pytest.mark.parametrize("header", [[], "text", 3, None, True, [{"__metadata__": {}}]])
def test_a_header_that_is_no_table_is_refused(tmp_path, header):
    content = sealed(json.dumps(header).encode() + b"  ")
    with pytest.raises(ModelFileError, match="not a priormtl file"):
        read_bytes(tmp_path, content)


BAD_JSON = [
    b'{"a"',
    b"{}x",
    b"\xff\xfe{}",
    b"\x00" * 10,
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":' + b"1" * 5000 + b"}",
]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_a_header_that_is_no_json_is_refused(tmp_path, text):
    with pytest.raises(ModelFileError, match="not a priormtl file"):
        read_bytes(tmp_path, sealed(text))


BAD_METADATA = [
    None,
    [],
    "text",
    {},
    {"priormtl": None},
    {"priormtl": {"kind": KIND}},
    {"priormtl": "{"},
    {"priormtl": "[]"},
    {"priormtl": "[" * 100_000},
    {"priormtl": "\ud800"},
    metadata(settings=None),
    metadata(settings=[]),
]


@pytest.mark.parametrize("bad", BAD_METADATA, ids=range(len(BAD_METADATA)))
def test_metadata_that_are_not_ours_are_refused(tmp_path, bad):
    with pytest.raises(ModelFileError, match="not a priormtl file"):
        read_bytes(tmp_path, sealed({"__metadata__": bad}))


def test_a_header_without_metadata_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="not a priormtl file"):
        read_bytes(tmp_path, sealed({"x": entry([0, 8], [1])}, bytes(8)))


@pytest.mark.parametrize("version", [0, 2, 10**9, "1", None, [1]])
def test_other_versions_are_refused(tmp_path, version):
    with pytest.raises(ModelFileError, match=r"has format .*upgrade priormtl"):
        read_bytes(tmp_path, sealed({"__metadata__": metadata(version=version)}))


@pytest.mark.parametrize("kind", ["other", None, 3, [KIND], ""])
def test_other_kinds_are_refused(tmp_path, kind):
    with pytest.raises(ModelFileError, match="not 'test'"):
        read_bytes(tmp_path, sealed({"__metadata__": metadata(kind=kind)}))


def doubled(header, key):
    """JSON of the header with one key twice."""
    value = json.dumps({key: header[key]})[1:-1]
    return json.dumps(header)[:-1].encode() + b", " + value.encode() + b"}"


@pytest.mark.parametrize("key", ["x", "__metadata__"])
def test_a_key_that_comes_twice_is_refused(tmp_path, key):
    header = header_of(x=entry([0, 8], [1]))
    with pytest.raises(ModelFileError, match="priormtl file"):
        read_bytes(tmp_path, sealed(doubled(header, key), bytes(8)))


def test_settings_with_a_key_twice_are_refused(tmp_path):
    text = json.dumps({"kind": KIND, "version": 1, "settings": {"lam": 1}})
    meta = {"priormtl": text.replace('"lam": 1', '"lam": 1, "lam": 2')}
    with pytest.raises(ModelFileError, match="priormtl file"):
        read_bytes(tmp_path, sealed({"__metadata__": meta}))


def test_a_digest_of_another_kind_is_refused(tmp_path, intact):
    content = intact[:-32] + blake2b(intact[:-32], digest_size=32).digest()
    with pytest.raises(ModelFileError, match="digest does not match; use an intact"):
        read_bytes(tmp_path, content)


def test_the_error_names_the_file(tmp_path):
    with pytest.raises(ModelFileError, match=r"file: the file is too short"):
        read_bytes(tmp_path, b"")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="is not a file; give the path"):
        read_archive(tmp_path, KIND)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"is not a file; give the path.*\.$"):
        read_archive(tmp_path / "nothing", KIND)
    with pytest.raises(FileNotFoundError, match="is not a file; give the path"):
        read_archive(tmp_path / "no folder" / "nothing", KIND)


def test_a_file_that_was_meant_is_named(tmp_path):
    for name in ("schools.model", "other"):
        (tmp_path / name).touch()
    (tmp_path / "school.model.d").mkdir()
    with pytest.raises(FileNotFoundError, match=r"mean 'schools\.model'\?$") as told:
        read_archive(tmp_path / "school.model", KIND)
    assert isinstance(told.value, ModelFileError)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a file; give the path"):
        read_archive(tmp_path / "pipe", KIND)


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch, intact):
    monkeypatch.setattr(archive, "MOST_FILE_BYTES", len(intact) - 1)
    with pytest.raises(ModelFileError, match="is larger than"):
        read_bytes(tmp_path, intact)


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt("stop")])
def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch, step, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error), match=str(error)):
        write_archive(tmp_path / "a", KIND, SETTINGS, ARRAYS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError("disk full")

    write_archive(tmp_path / "a", KIND, {"old": 1}, {})
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(OSError, match="disk full"):
            write_archive(tmp_path / "a", KIND, {"new": 2}, {})
    assert read_archive(tmp_path / "a", KIND)[0] == {"old": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_settings_that_are_not_plain_leave_nothing_behind(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_archive(tmp_path / "a", KIND, {"x": object()}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_written_over_a_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_archive(tmp_path / "folder", KIND, {}, {})
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_file_is_replaced_as_a_whole(tmp_path):
    write_archive(tmp_path / "a", KIND, {"old": "x" * 1000}, ARRAYS)
    write_archive(tmp_path / "a", KIND, {"new": 2}, {})
    assert read_archive(tmp_path / "a", KIND) == ({"new": 2}, {})
