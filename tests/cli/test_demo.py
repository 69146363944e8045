"""The demonstration prints what was measured, and leaves an example behind."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from priormtl import load
from priormtl.cli import demonstration
from priormtl.cli.demonstration import (
    build_model,
    build_priors,
    spell_benefit,
    tabulate,
)
from priormtl.cli.main import app


def test_priors_are_compared_by_the_same_model():
    plain, *others = (build_model(p).get_params() for p in build_priors().values())
    for other in others:
        changed = {name for name in plain if repr(plain[name]) != repr(other[name])}
        assert changed == {"feature_prior"}


def test_a_table_shows_errors_and_the_largest_gap():
    errors = [[0.5, 0.7], [1.0, 3.0], [2.0, 2.0]]
    one = np.array([errors, [[1e-8, 2e-7]] * 3, [[0.25, 0.5]] * 3])
    (row,) = zip(*(c.cells for c in tabulate({"both": one}).columns), strict=True)
    assert row == (
        "both",
        "0.60 ± 0.14",
        "2.00 ± 1.41",
        "2.00 ± 0.00",
        *("2e-07", "2.2"),
    )


def test_the_benefit_is_paired_by_draw():
    words = spell_benefit(np.array([10.0, 20.0]), np.array([8.0, 18.0]))
    words = words.replace("\n", " ")
    assert "-15.0 ± 5.0 %" in words
    assert "15.00 mmHg without, 13.00 with" in words


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "DRAWS", 4)
        patch.setattr(demonstration, "SIZES", (6, 12))
        patch.setattr(demonstration, "STRENGTHS", [0.0, 10.0])
        result = CliRunner().invoke(app, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.output


WORDS = ["Patients (simulated)", "mmHg", "gap", "contradict"]


@pytest.mark.slow
def test_everything_is_printed(shown):
    said = shown[1]
    assert [word for word in WORDS if word not in said] == []
    # What is known helps on new patients.
    assert -15 < float(re.search(r"patients by ([-+.0-9]+)", said)[1]) < -3
    assert "without it, a change of −" in " ".join(said.split())


@pytest.mark.slow
def test_an_example_stays_with_its_model_and_report(shown):
    folder, said = shown
    model = load(folder / "patients.model")
    assert model.tasks_.tolist() == [f"clinic {number}" for number in range(1, 9)]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "8 clinics" in page
    assert re.search(r"Error \d+ % smaller", page)
    assert "on the given rows" in page
    for file in folder.iterdir():
        assert file.name in said


@pytest.mark.slow
def test_commands_that_are_shown_work(shown, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    commands = [line for line in shown[1].splitlines() if "  priormtl " in line]
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, command.split()[1:])
        assert result.exit_code == 0, result.output
