"""The demonstration prints what was measured, and leaves an example behind."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from priormtl import load
from priormtl.cli import demonstration
from priormtl.cli.demonstration import (
    TASK,
    Result,
    pose_digits,
    pose_patients,
    spell_benefit,
    spell_scores,
    split,
    tabulate,
)
from priormtl.cli.main import app


def test_every_kind_gives_as_many_rows_and_no_row_is_in_both():
    kind = np.repeat([0, 1, 2], [20, 10, 30])
    X = np.arange(60.0)[:, np.newaxis]
    train, test = split(X, X[:, 0], kind, 6, seed=1)
    assert np.bincount(kind[train.X[:, 0].astype(int)]).tolist() == [6, 6, 6]
    assert sorted([*train.y, *test.y]) == list(range(60))
    assert np.bincount(train.fold).tolist() == [6, 6, 6]
    again, _ = split(X, X[:, 0], kind, 6, seed=2)
    assert not np.array_equal(again.X, train.X)


@pytest.mark.parametrize("pose", [pose_digits, pose_patients])
def test_models_of_a_part_differ_in_their_priors_alone(pose):
    part = pose()
    plain, *others = (model.get_params() for model in part.models.values())
    for other in others:
        changed = {name for name in plain if repr(plain[name]) != repr(other[name])}
        assert "feature_prior" in changed
        assert changed <= {"thetas", "feature_prior"}
        assert set(plain["thetas"]) <= set(other["thetas"])
    train, test = part.draw(part.size, 0)
    assert set(train.X[:, TASK]) == set(test.X[:, TASK])


def test_a_table_shows_scores_choices_and_the_largest_gap():
    part = pose_patients()
    trials = [Result(0.5, 1.0, 1e-8, 0.25), Result(0.7, 0.0, 2e-7, 1)]
    table = tabulate(part, {"both": trials})
    (row,) = zip(*(column.cells for column in table.columns), strict=True)
    assert row == ("both", "0.600 ± 0.141", "0, 1", "2e-07", "1.2")
    assert spell_scores([1.0, 3.0]) == "2.000 ± 1.414"


def test_the_benefit_is_paired_by_draw():
    def errors(*scores):
        return [Result(score, None, 0.0, 0.0) for score in scores]

    results = {"none": errors(10, 20), "all statements": errors(8, 18)}
    words = spell_benefit(results).replace("\n", " ")
    assert "-15.0 ± 5.0 %" in words
    assert "15.00 mmHg without, 13.00 with" in words


@pytest.mark.slow
def test_what_is_known_helps_on_new_patients():
    """The claim of the example, on draws that no page reports."""
    part = pose_patients()
    errors = {"none": [], "all statements": []}
    for seed in range(100, 104):
        train, test = part.draw(part.size, seed)
        for name, found in errors.items():
            model = part.models[name].fit(train.X, train.y, groups=train.fold)
            found.append(part.score(model, test))
    ratios = np.divide(errors["all statements"], errors["none"])
    assert ratios.mean() < 0.95


def load_few_digits(*, return_X_y):
    """Three digits in place of ten, for speed."""
    pixels, digit = load_digits(return_X_y=return_X_y)
    return pixels[digit < 3], digit[digit < 3]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        for pose in (pose_digits, pose_patients):
            few = partial(lambda pose: pose()._replace(repeats=2), pose)
            patch.setattr(demonstration, pose.__name__, few)
        patch.setattr(demonstration, "SIZES", (8, 12))
        patch.setattr(demonstration, "load_digits", load_few_digits)
        patch.setattr(demonstration, "STRENGTHS", [0.0, 10.0])
        result = CliRunner().invoke(app, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.output


WORDS = [
    "Digits",
    "AUC",
    "pixel grid",
    "Patients (simulated)",
    "mmHg",
    "gap",
    "contradict",
]


@pytest.mark.slow
def test_everything_is_printed(shown):
    assert [word for word in WORDS if word not in shown[1]] == []


@pytest.mark.slow
def test_an_example_stays_with_its_model_and_report(shown):
    folder, said = shown
    model = load(folder / "patients.model")
    assert model.tasks_.tolist() == [f"clinic {number}" for number in range(1, 9)]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Patients by clinic" in page
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
