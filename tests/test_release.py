"""What a release says of itself in several places is the same in all of them."""

import re
import tomllib
from pathlib import Path

import pytest

import priormtl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def find(path, pattern):
    found = re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{path} lacks {pattern}"
    return found


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"\A# Changelog\n(?:\n## Unreleased\n[\s\S]*?)?\n## (\d\S*)"),
        ("recipe/recipe.yaml", r'^  version: "(\S+)"$'),
    ],
)
def test_versions_agree(path, pattern):
    assert find(path, pattern) == [priormtl.__version__]


def test_pythons_are_those_that_are_tested():
    named = [one.split(" :: ")[-1] for one in PROJECT["classifiers"] if ":: 3." in one]
    (matrix,) = find(".github/workflows/ci.yml", r"python: \[(.*)\]")
    assert re.findall(r"[\d.]+", matrix) == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert find("recipe/variants.yaml", r'- "(.*)"') == named[:1]


def test_the_recipe_asks_for_what_the_package_asks_for():
    (run,) = find("recipe/recipe.yaml", r"  run:\n((?:    .*\n)+)")
    asked = set(re.findall(r"- (\S+) >=([\d.]+)$", run, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cli"], *extras["plot"]]
    names = {"matplotlib": "matplotlib-base"}
    pairs = [one.split(">=") for one in wanted]
    assert asked == {(names.get(name, name), least) for name, least in pairs}
