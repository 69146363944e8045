"""priormtl data: data sets, files from originals, and an example to start with."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from paper_data import WRITERS
from priormtl import FeaturePrior
from priormtl.cli.data import DAYS, FILES, draw_patients
from priormtl.cli.main import app
from priormtl.datasets import SOURCES, load_yale
from priormtl.datasets.files import read_arrays
from processes import assert_refused


def run(*words, **environment):
    settings = {"PRIORMTL_DATA": None} | environment
    return CliRunner().invoke(app, [str(word) for word in words], env=settings)


def refuse(result, *words):
    """One line on stderr, exit code 2, nothing else."""
    assert_refused(result, *words)
    assert result.stdout == ""


def test_nothing_named_lists_all_as_missing():
    result = run("data")
    assert result.exit_code == 0
    assert "PRIORMTL_DATA is not set" in result.output
    for source in SOURCES.values():
        assert source.name in result.output
        assert source.command in result.output
    assert result.output.count("missing") >= len(SOURCES)


def test_an_empty_folder_is_named(tmp_path):
    for result in (
        run("data", "--home", tmp_path),
        run("data", PRIORMTL_DATA=str(tmp_path)),
    ):
        assert result.exit_code == 0
        assert f"Folder: {tmp_path}" in result.output
        assert "found" not in result.output


def test_all_sets_are_found(data_home):
    result = run("data", "--home", data_home)
    assert result.exit_code == 0
    assert result.output.count("found") == len(SOURCES)
    assert "convert" not in result.output


def test_damage_is_told(tmp_path):
    (tmp_path / "orl.npz").write_bytes(b"PK\x03\x04 cut")
    result = run("data", "--home", tmp_path)
    assert result.exit_code == 0
    assert "damaged" in result.output
    assert f"{tmp_path / 'orl.npz'} is damaged" in result.output


def test_json_tells_the_same(tmp_path):
    (tmp_path / "orl.npz").write_bytes(b"")
    told = json.loads(run("data", "--home", tmp_path, "--json").stdout)
    assert told["folder"] == str(tmp_path)
    states = {entry["name"]: entry["state"] for entry in told["data"]}
    expected = dict.fromkeys(SOURCES, "missing") | {"orl": "damaged"}
    assert states == expected
    school = told["data"][0]
    assert (school["rows"], school["features"]) == (15362, 27)
    assert json.loads(run("data", "--json").stdout)["folder"] is None


@pytest.mark.parametrize("as_json", [True, False])
def test_an_original_becomes_a_file(as_json, data_home, tmp_path):
    arrays = read_arrays(SOURCES["yale"], data_home=data_home)
    originals = WRITERS["yale"](tmp_path, arrays)
    words = ["data", "convert", "yale", *originals, "--to", tmp_path]
    result = run(*words, *(["--json"] if as_json else []))
    assert result.exit_code == 0, result.output
    path = tmp_path / "yale.npz"
    if as_json:
        assert json.loads(result.stdout) == {"file": str(path), "verified": True}
    else:
        assert result.stdout == f"{path} written.\n"
    assert np.array_equal(
        load_yale(data_home=tmp_path).y, load_yale(data_home=data_home).y
    )
    refuse(run(*words), "already exists", "--replace")
    assert run(*words, "--replace").exit_code == 0


def test_other_contents_are_written_with_a_word(tmp_path):
    arrays = {
        "X": np.zeros((400, 1024), np.uint8),
        "subject": np.repeat(np.arange(40), 10).astype(np.uint8),
    }
    originals = WRITERS["orl"](tmp_path, arrays)
    result = run("data", "convert", "orl", *originals, PRIORMTL_DATA=str(tmp_path))
    assert result.exit_code == 0
    assert "load it with verify=False" in result.stdout
    assert "changed" in run("data", "--home", tmp_path).output


def test_mistakes_are_one_sentence(tmp_path):
    nothing = tmp_path / "nothing.mat"
    refuse(run("data", "convert", "orl", nothing), "PRIORMTL_DATA is not set", "--to")
    to = ("--to", tmp_path)
    refuse(run("data", "convert", "or", nothing, *to), "unknown data set 'or'", "'orl'")
    refuse(run("data", "convert", "orl", nothing, *to), "nothing.mat is not a file")
    refuse(run("data", "convert", "orl", tmp_path, *to), "is not a file")
    refuse(run("data", "convert", "mnist", nothing, *to), "give 2 original files")
    nothing.write_bytes(b"junk")
    refuse(run("data", "convert", "orl", nothing, *to), "cannot be read as a MATLAB")
    refuse(
        run("data", "convert", "orl", nothing, "--to", tmp_path / "no"),
        "does not exist",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["nothing.mat"]


def test_no_traceback_from_the_shell(tmp_path):
    path = tmp_path / "letter.data.gz"
    path.write_bytes(b"\x1f\x8b cut")
    command = ["data", "convert", "letter", str(path), "--to", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-m", "priormtl", *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith(f"Error: {path} is damaged")


def test_draws_repeat_and_differ_by_seed():
    again, other = (draw_patients(6, seed)[0] for seed in (3, 4))
    assert draw_patients(6, 3)[0].equals(again)
    assert not other.equals(again)


def test_the_example_has_few_patients_to_fit_and_many_to_predict(tmp_path):
    result = run("data", "example", "--to", tmp_path / "new", "--json")
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    assert [file.rsplit("/")[-1] for file in files] == list(FILES)
    parts = [csv.read_csv(file) for file in files[:2]]
    assert [part.num_rows for part in parts] == [48, 400]
    for part in parts:
        assert part.column_names == [
            "clinic",
            *("age", "weight", "dose", *DAYS),
            "after",
        ]
        assert len(part["clinic"].unique()) == 8
    prior = FeaturePrior.from_file(files[2])
    assert repr(prior) == "FeaturePrior(15 relations + 8 common effects + 1 sign)"


def test_the_example_is_said_to_be_simulated_and_names_the_next_commands(tmp_path):
    said = run("data", "example", "--to", tmp_path).output
    assert "Simulated patients" in said
    assert f"--prior {tmp_path / FILES[2]}" in said
    assert said.count("  priormtl ") == 3


def test_files_that_are_there_stay(tmp_path):
    (tmp_path / FILES[0]).write_text("mine", encoding="utf-8")
    result = run("data", "example", "--to", tmp_path)
    assert result.exit_code == 2
    assert "--replace" in result.stderr
    assert (tmp_path / FILES[0]).read_text(encoding="utf-8") == "mine"
    assert run("data", "example", "--to", tmp_path, "--replace").exit_code == 0
    assert (tmp_path / FILES[0]).stat().st_size > 1000
