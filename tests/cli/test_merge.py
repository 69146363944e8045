"""priormtl merge: sites that may not share rows share statistics."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from priormtl import TaskStatistics, summarize
from priormtl.cli.main import app
from refusals import assert_refused


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


def run(*words):
    return CliRunner().invoke(app, ["merge", *(str(word) for word in words)])


def ask(folder, *files, words=()):
    paths = [folder / f"{file}.stats" for file in files]
    return run(*paths, "--out", folder / "all.stats", *words)


def refuse(result, folder, message):
    assert_refused(result, message)
    assert not (folder / "all.stats").exists()


def test_help_has_an_example():
    assert "Example: priormtl merge north.stats" in run("--help").output


def test_the_result_is_the_sum(sites):
    result = ask(sites, 0, 1, 2)
    assert result.exit_code == 0, result.output
    merged = TaskStatistics.load(sites / "all.stats")
    expected = draw(0, "uv") + draw(1, "vw") + draw(2, "u")
    assert merged.tasks == ("u", "v", "w")
    assert merged.features == ("a", "b")
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(merged, name), getattr(expected, name))
    assert "3 files, 3 tasks, 2 features, weight 90." in result.stdout


def test_json(sites):
    told = json.loads(ask(sites, 0, 1, words=["--json"]).stdout)
    assert (told["files"], told["tasks"], told["weight"]) == (2, 3, 60.0)


def test_a_sum_may_take_the_place_of_its_part(sites):
    files = [sites / "0.stats", sites / "1.stats"]
    assert run(*files, "--out", files[0]).exit_code == 0
    assert TaskStatistics.load(files[0]).weight.sum() == 60.0


def test_the_same_rows_do_not_count_twice(sites):
    (sites / "3.stats").write_bytes((sites / "0.stats").read_bytes())
    refuse(ask(sites, 0, 1, 3), sites, "3.stats holds the same statistics as")
    refuse(ask(sites, 0, 0), sites, "give each file once")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "c"), "it lacks ['b'], it has besides ['c']; make the files with"),
        (("b", "a"), "in another order"),
        (("a",), "it lacks ['b']"),
    ],
)
def test_other_features_are_named(sites, names, message):
    draw(4, "uv", names).save(sites / "4.stats")
    refuse(ask(sites, 0, 4), sites, message)
    refuse(ask(sites, 0, 4), sites, "4.stats must have the features of")


def test_tasks_of_another_kind_are_named(sites):
    draw(5, [1, 2]).save(sites / "5.stats")
    refuse(ask(sites, 0, 5), sites, "5.stats: tasks to be merged must have labels")


def test_damaged_files_are_named(sites):
    content = bytearray((sites / "1.stats").read_bytes())
    content[200] ^= 1
    (sites / "1.stats").write_bytes(content)
    refuse(ask(sites, 0, 1), sites, "1.stats")
    refuse(ask(sites, 0, "none"), sites, "none.stats is not a file")
