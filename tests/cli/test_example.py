"""An example to begin with: real patients, whole files, nothing overwritten."""

import json

import numpy as np
import pyarrow.compute as pc
from pyarrow import csv
from sklearn.datasets import load_diabetes
from typer.testing import CliRunner

from priormtl import FeaturePrior
from priormtl.cli.example import FEATURES, FILES, read_patients
from priormtl.cli.main import app


def run(*words):
    return CliRunner().invoke(app, ["data", "example", *map(str, words)])


def test_patients_are_those_of_scikit_learn():
    table, source = read_patients(), load_diabetes(scaled=False)
    values = np.column_stack([table[name].to_numpy() for name in FEATURES])
    np.testing.assert_array_equal(values, source.data[:, 1:])
    low, high = (
        np.array([int(label.split("-")[end]) for label in table["age"].to_pylist()])
        for end in (0, 1)
    )
    assert ((low <= source.data[:, 0]) & (source.data[:, 0] <= high)).all()


def test_every_patient_is_in_one_of_the_files(tmp_path):
    result = run("--to", tmp_path / "new", "--json")
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    assert [file.rsplit("/")[-1] for file in files] == list(FILES)
    parts = [csv.read_csv(file) for file in files[:2]]
    assert [part.num_rows for part in parts] == [300, 142]
    total = sum(pc.sum(part["progression"]).as_py() for part in parts)
    assert total == pc.sum(read_patients()["progression"]).as_py()
    prior = FeaturePrior.from_file(files[2])
    assert len(prior.table(FEATURES).rows) == 3


def test_files_that_are_there_stay(tmp_path):
    (tmp_path / FILES[0]).write_text("mine", encoding="utf-8")
    result = run("--to", tmp_path)
    assert result.exit_code == 2
    assert "--replace" in result.stderr
    assert (tmp_path / FILES[0]).read_text(encoding="utf-8") == "mine"
    assert run("--to", tmp_path, "--replace").exit_code == 0
    assert (tmp_path / FILES[0]).stat().st_size > 1000
