"""priormtl stats and merge: files of statistics, their sums, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from drawn_tables import assert_same_columns, mixed_frame, summarize_naively, to_arrow
from priormtl import TaskStatistics, summarize
from priormtl.cli.main import app
from processes import assert_refused

COLUMNS = ("--weight", "w", "--features", "size,colour,count")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    frame = mixed_frame(gaps=0.1)
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        parquet.write_table(to_arrow(frame.iloc[rows]), place / f"{i}.parquet")
    return place


def run(*words):
    return CliRunner().invoke(app, ["stats", *(str(word) for word in words)])


def ask(folder, *words, task="school", target="score"):
    out = folder.parent / "site.stats"
    return run(
        folder, "--task", task, "--target", target, "--out", out, *COLUMNS, *words
    )


def load(folder):
    return TaskStatistics.load(folder.parent / "site.stats")


def refuse(result, folder, *words):
    assert_refused(result, *words)
    assert [path.name for path in folder.parent.iterdir()] == ["data"]


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_the_file_holds_what_the_rows_give(folder, missing):
    result = ask(folder, "--missing", missing)
    assert result.exit_code == 0, result.output
    frame = mixed_frame(gaps=0.1)
    assert_same_columns(load(folder), summarize_naively(frame, missing))
    assert "200 rows read, 5 tasks, 6 features" in result.stdout
    dropped = frame.isna().any(axis=1).sum()
    assert (f"{dropped} rows dropped" in result.stdout) == (missing == "drop")
    assert result.stderr == ""


def test_json_and_small_tasks(folder):
    counts = mixed_frame()["school"].value_counts()
    words = ("--missing", "mean", "--min-rows", counts.min() + 1)
    told = json.loads(ask(folder, *words, "--json").stdout)
    assert told == {
        "file": str(folder.parent / "site.stats"),
        "rows": 200,
        "dropped": 0,
        "tasks": 4,
        "features": 6,
        "left_out": 1,
    }
    assert counts.idxmin() not in load(folder).tasks
    assert "1 task with fewer than" in ask(folder, *words).stdout


def test_filters_and_categories(folder):
    words = ("--where", "id < 100", "--categories", "colour=red,blue,green,black")
    result = ask(folder, "--missing", "drop", *words)
    assert result.exit_code == 0, result.output
    assert load(folder).features[1:-1] == tuple(
        f"colour={name}" for name in ("black", "blue", "green", "red")
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "0.parquet: column 'size' lacks"),
        (("--missing", "drop", "--min-rows", "1000"), "min_rows=1000 must leave some"),
        (("--categories", "colour="), "--categories must look like COL or COL=A,B"),
        (("--features", "sise"), "unknown column 'sise'"),
        (("--where", "year > 1"), "unknown column 'year'"),
        (("--where", "id < 0"), "there must be rows"),
        (("--out", "nowhere/site.stats"), "folder nowhere does not exist"),
    ],
)
def test_mistakes_are_one_sentence_and_no_file(folder, words, message):
    refuse(ask(folder, *words), folder, message)


DAMAGES = {
    "cannot be read": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "lacks ['size']": lambda path: write(mixed_frame().drop(columns="size"), path),
    "column 'size' must hold numbers": lambda path: write(
        mixed_frame().assign(size="big"), path
    ),
}


def write(frame, path):
    parquet.write_table(to_arrow(frame), path)


@pytest.mark.parametrize("message", DAMAGES)
def test_broken_files_are_named(folder, message):
    path = folder / "1.parquet"
    DAMAGES[message](path)
    refuse(ask(folder, "--missing", "drop"), folder, str(path), message)


def test_an_old_file_survives_a_failure(folder):
    out = folder.parent / "site.stats"
    out.write_text("old")
    assert ask(folder).exit_code == 2
    assert out.read_text() == "old"


def draw(seed, tasks, names=("a", "b")):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, len(names)))
    task = rng.choice(list(tasks), 30)
    found = summarize(X, rng.standard_normal(30), task.tolist())
    return replace(found, features=names)


FIELDS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


@pytest.fixture
def sites(tmp_path):
    found = [draw(0, "uv"), draw(1, "vw"), draw(2, "u")]
    for i, statistics in enumerate(found):
        statistics.save(tmp_path / f"{i}.stats")
    return tmp_path


def run_merge(*words):
    return CliRunner().invoke(app, ["merge", *(str(word) for word in words)])


def ask_merge(folder, *files, words=()):
    paths = [folder / f"{file}.stats" for file in files]
    return run_merge(*paths, "--out", folder / "all.stats", *words)


def refuse_merge(result, folder, message):
    assert_refused(result, message)
    assert not (folder / "all.stats").exists()


def test_the_result_is_the_sum(sites):
    result = ask_merge(sites, 0, 1, 2)
    assert result.exit_code == 0, result.output
    merged = TaskStatistics.load(sites / "all.stats")
    expected = draw(0, "uv") + draw(1, "vw") + draw(2, "u")
    assert merged.tasks == ("u", "v", "w")
    assert merged.features.names == ("a", "b")
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(merged, name), getattr(expected, name))
    assert "3 files, 3 tasks, 2 features, weight 90." in result.stdout


def test_a_sum_as_json(sites):
    told = json.loads(ask_merge(sites, 0, 1, words=["--json"]).stdout)
    assert (told["files"], told["tasks"], told["weight"]) == (2, 3, 60.0)


def test_a_sum_may_take_the_place_of_its_part(sites):
    files = [sites / "0.stats", sites / "1.stats"]
    assert run_merge(*files, "--out", files[0]).exit_code == 0
    assert TaskStatistics.load(files[0]).weight.sum() == 60.0


def test_the_same_rows_do_not_count_twice(sites):
    (sites / "3.stats").write_bytes((sites / "0.stats").read_bytes())
    refuse_merge(
        ask_merge(sites, 0, 1, 3), sites, "3.stats holds the same statistics as"
    )
    refuse_merge(ask_merge(sites, 0, 0), sites, "Give each file once")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "c"), "it lacks ['b'], also has ['c']. Use the same --features"),
        (("b", "a"), "has a different order"),
        (("a",), "it lacks ['b']"),
    ],
)
def test_other_features_are_named(sites, names, message):
    draw(4, "uv", names).save(sites / "4.stats")
    refuse_merge(ask_merge(sites, 0, 4), sites, message)
    refuse_merge(ask_merge(sites, 0, 4), sites, "4.stats must have the features of")


def test_tasks_of_another_kind_are_named(sites):
    draw(5, [1, 2]).save(sites / "5.stats")
    refuse_merge(
        ask_merge(sites, 0, 5), sites, "5.stats: tasks to be merged must have labels"
    )


def test_damaged_files_are_named(sites):
    content = bytearray((sites / "1.stats").read_bytes())
    content[200] ^= 1
    (sites / "1.stats").write_bytes(content)
    refuse_merge(ask_merge(sites, 0, 1), sites, "1.stats")
    refuse_merge(ask_merge(sites, 0, "none"), sites, "none.stats is not a file")
