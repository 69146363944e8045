"""priormtl reproduce: one command, resumable, and clear about what is missing."""

import json
import os
import shutil
import signal
import sys
import time

import pytest
from typer.testing import CliRunner

from priormtl.cli.main import app
from processes import start_process


def run(*words, **environment):
    settings = {"PRIORMTL_DATA": None} | environment
    return CliRunner().invoke(app, [str(word) for word in words], env=settings)


def refuse(result, *words):
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr


def test_an_unknown_part_is_refused(tmp_path):
    refuse(run("reproduce", "table7", "--out", tmp_path), "table7", "table1")
    assert list(tmp_path.iterdir()) == []


def test_missing_data_are_said_before_anything_is_computed(tmp_path):
    out = tmp_path / "out"
    result = run("reproduce", "table1", "--out", out, PRIORMTL_DATA=str(tmp_path))
    refuse(result, str(tmp_path), "school.npz", "--skip-missing")
    assert result.stderr.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--force", "natral"), "natural"),
        (("--limit", "0"), "limit must be a positive number"),
    ],
)
def test_bad_options_are_refused(tmp_path, words, message):
    result = run("reproduce", "figure1", "--out", tmp_path / "out", *words)
    refuse(result, message)


def test_nothing_computed_is_a_table_that_says_so(tmp_path, data_home):
    words = ("reproduce", "table1", "--quick", "--collect", "--json")
    result = run(*words, "--out", tmp_path, PRIORMTL_DATA=str(data_home))
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["computed"], said["done"]) == (0, 0)
    assert said["planned"] > 0
    assert f"0 of {said['planned']}" in (tmp_path / "table1.md").read_text()
    assert not (tmp_path / "units").exists()


def start(out, home, *words):
    return start_process(
        [sys.executable, "-m", "priormtl", "reproduce", *words, "--out", str(out)],
        env=os.environ | {"PRIORMTL_DATA": str(home), "OPENBLAS_NUM_THREADS": "1"},
    )


def finish(process):
    """Exit code, and what was said."""
    said, _ = process.communicate()
    return process.returncode, said.splitlines()


def count_planned(out, home, *words):
    result = run(
        "reproduce", *words, "--collect", "--json", "--out", out, PRIORMTL_DATA=home
    )
    return json.loads(result.stdout)["planned"]


def wait_for_units(out, count):
    """Until so many units are finished."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if len(list((out / "units").glob("*.parquet"))) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no units were finished in five minutes")


@pytest.fixture
def sarcos_home(tmp_path, data_home):
    """Folder with one data set, which is enough to interrupt."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "sarcos.npz").symlink_to(data_home.resolve() / "sarcos.npz")
    return folder


@pytest.mark.slow
def test_killed_interrupted_and_resumed_runs_give_the_same_table(tmp_path, sarcos_home):
    broken = tmp_path / "broken"
    words = ("table1", "--quick", "--skip-missing")
    planned = count_planned(tmp_path / "nothing", str(sarcos_home), *words)
    for count, number in ((1, signal.SIGKILL), (4, signal.SIGINT)):
        process = start(broken, sarcos_home, *words)
        wait_for_units(broken, count)
        process.send_signal(number)
        code, said = finish(process)
        if number == signal.SIGINT:
            assert code == 130
            assert any("run the same command again to resume" in line for line in said)
            assert f" of {planned}" in (broken / "table1.md").read_text()
    assert finish(start(broken, sarcos_home, *words, "--jobs", "2"))[0] == 0
    assert list(broken.rglob(".priormtl-*")) == []
    # What was computed before and between interruptions is what a run by itself gives.
    anew = tmp_path / "anew"
    shutil.copytree(broken / "units", anew / "units")
    early = sorted((anew / "units").iterdir(), key=lambda unit: unit.stat().st_mtime)
    for unit in early[:4]:
        unit.unlink()
    code, said = finish(start(anew, sarcos_home, *words))
    assert code == 0
    assert f"{planned} of {planned} units are finished, 4 of them new." in said
    for name in ("table1.md", "table1.tex", "table1.html"):
        assert (broken / name).read_bytes() == (anew / name).read_bytes()
