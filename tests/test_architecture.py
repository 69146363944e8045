"""The shape of the package: public names and light imports."""

import subprocess
import sys
from pathlib import Path

import priormtl

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "priormtl"
TESTS = ROOT / "tests"


def test_public_names_exist_and_are_documented():
    for name in priormtl.__all__:
        assert getattr(priormtl, name).__doc__, name


def test_rooms_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, priormtl; print('numpy' in sys.modules)\n"
        "print(set(priormtl.__all__) <= set(dir(priormtl)))\n"
        "from priormtl import *; print(FeaturePrior is priormtl.FeaturePrior)\n"
        "print(priormtl.engines.__name__, priormtl.datasets.__name__)\n"
        "print(hasattr(priormtl, 'nothing'), 'matplotlib' in sys.modules)\n"
        "priormtl.plotting.plot_coefficients\n"
        "print(*(f'matplotlib{m}' in sys.modules for m in ('', '.pyplot')))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rooms = "priormtl.engines priormtl.datasets"
    said = ["False", "True", "True", rooms, "False False", "True False"]
    assert result.stdout.splitlines() == said


def loaded_by(code):
    """Optional packages that a fresh process has loaded after some code."""
    watched = [
        "pandas",
        "polars",
        "pyarrow",
        "networkx",
        "matplotlib",
        "typer",
        "rich",
        "numba",
        "safetensors",
        "dask",
        "distributed",
        "onnx",
        "pyspark",
    ]
    report = f"import sys; print(*sorted(set({watched!r}) & set(sys.modules)))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_optional_packages_stay_unimported():
    # scikit-learn itself loads some of them where they are installed; numba waits for
    # the first fit that needs compiled loops.
    by_sklearn = loaded_by("import sklearn.base, sklearn.metrics")
    by_us = loaded_by(
        "import priormtl, numpy as np\n"
        "priormtl.MultiTaskRegressor(0.0).fit(np.eye(3), np.arange(3.0))"
    )
    assert by_us == by_sklearn


def test_nothing_of_this_machine_is_written_down():
    words = ("/work" + "/", "/root" + "/", "pypi" + ".org")
    tracked = [*SOURCE.rglob("*.py"), *TESTS.rglob("*.py"), *ROOT.glob("*.*")]
    for path in tracked:
        if path.is_file() and path.suffix in {".py", ".toml", ".md", ".yaml"}:
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in words), path
