"""What the page on data sets shows runs as written."""

import re
from pathlib import Path

import pytest

from priormtl import datasets
from priormtl.datasets import SOURCES

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS)
def test_examples_run(code, data_home, monkeypatch, capsys):
    monkeypatch.setenv("PRIORMTL_DATA", str(data_home))
    exec(compile(code, "datasets.md", "exec"), {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def test_every_loader_and_original_is_on_the_page():
    loaders = [name for name in datasets.__all__ if name.startswith("load_")]
    assert all(f"`{name}`" in PAGE for name in loaders)
    for source in SOURCES.values():
        assert f"`{source.name}`" in PAGE
        assert all(f"`{file}`" in PAGE for file in source.originals)


def test_the_table_has_the_numbers_of_rows(data_home):
    for name in re.findall(r"^\| `(load_\w+)`", PAGE, re.MULTILINE):
        data = getattr(datasets, name)(data_home=data_home)
        (line,) = re.findall(rf"^\| `{name}` .*$", PAGE, re.MULTILINE)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1].startswith(str(len(data.task_names)))
        assert cells[2].split()[0] == str(len(data.sample))
        assert data.kind in cells[1]
        assert cells[4] == str(data.y.shape)
        if "(" in cells[2]:
            assert f"({len(data.originals)} " in cells[2]
