"""The demonstration prints what was measured, and leaves an example behind."""

import pytest
from typer.testing import CliRunner

from priormtl import load
from priormtl.cli.demonstration import showing
from priormtl.cli.main import app


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(showing, "REPEATS", 2)
        patch.setattr(showing, "SIZES", (8, 12))
        result = CliRunner().invoke(app, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.output


@pytest.mark.parametrize(
    "word",
    ["Digits", "AUC", "pixel grid", "Patients", "R²", "both", "gap", "bmi ~ pressure"],
)
def test_everything_is_printed(shown, word):
    assert word in shown[1]


def test_an_example_stays_with_its_model_and_report(shown):
    folder, said = shown
    model = load(folder / "patients.model")
    assert model.tasks_.tolist() == ["19-35", "36-45", "46-55", "56-65", "66-79"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Patients by age" in page
    assert "on the given rows" in page
    for file in folder.iterdir():
        assert file.name in said


def test_commands_that_are_shown_work(shown, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    commands = [line for line in shown[1].splitlines() if "  priormtl " in line]
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, command.split()[1:])
        assert result.exit_code == 0, result.output
