"""What the README and the pages of the documentation show runs as written."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from priormtl.cli.main import app
from shown_code import find_examples, find_steps, run_python

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MADE = {"generated", "gallery", "_build", "cli.md"}  # by `make docs`


def run_commands(text, folder):
    """Run commands; lines below them, but dots, are lines of what they print."""
    steps = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    for step in steps:
        command, *shown = step.splitlines()
        done = run_command(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said = [line.strip() for line in done.stdout.splitlines()]
        wrong = [line for line in shown if line.strip() not in {"", "…"} | {*said}]
        assert not wrong, f"{command}\nshown: {wrong}\nsaid: {said}"


def run_command(command, folder):
    """Our own commands run in this process: starting another takes seconds."""
    words = shlex.split(command)
    if words[0] == "priormtl":
        done = CliRunner().invoke(app, words[1:])
        return SimpleNamespace(
            returncode=done.exit_code, stdout=done.stdout, stderr=done.stderr
        )
    if words[0] == "python":
        words[0] = sys.executable
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if find_steps(page) and not MADE & set(page.relative_to(ROOT).parts)
]
NEEDS_DATA = {"datasets.md"}


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


@pytest.mark.parametrize("code", find_examples(README))
def test_every_example_of_the_readme_stands_alone(code, empty_folder, capsys):
    run_python(code, {}, capsys)


@pytest.mark.parametrize("page", ["README.md", "paper/paper.md"])
def test_figures_of_a_page_are_those_of_the_benchmarks(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    text = (ROOT / page).read_text("utf-8")
    readme = import_module("benchmarks.readme")
    assert "<!-- end of " in text
    assert readme.fill(text) == text, "python -m benchmarks.readme"
    assert len(text) <= 9000 or page != "README.md"


@pytest.mark.slow
def test_commands_of_the_readme_run_in_an_empty_folder(empty_folder):
    for language, text in find_steps(README):
        if language == "console":
            run_commands(text, empty_folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_steps_of_a_page_run_in_order(page, empty_folder, capsys, request):
    if page.name in NEEDS_DATA:
        home = request.getfixturevalue("data_home")
        request.getfixturevalue("monkeypatch").setenv("PRIORMTL_DATA", str(home))
    names = {"__name__": "__main__"}
    for language, text in find_steps(page):
        if "pyspark" in text:
            continue  # run by test_spark.py
        if language == "python":
            run_python(text, names, capsys)
        else:
            run_commands(text, empty_folder)


def test_there_are_examples():
    assert len(find_examples(README)) >= 3
    assert len(PAGES) >= 3


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_names_the_two_commands(command):
    assert command in README.read_text(encoding="utf-8")
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
