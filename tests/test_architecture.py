"""The shape of the package: public names, light imports, one test file per file."""

import subprocess
import sys
from pathlib import Path

import pytest

import priormtl

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "priormtl"
TESTS = ROOT / "tests"

# Files whose laws are stated by another test file, named here.
TESTED_ELSEWHERE = {
    "_arrays.py": "names only",
    "_files.py": "test_files.py",
    "_lazy.py": "test_lazy.py",
    "_processes.py": "test_processes.py",
    "__main__.py": "cli/test_main.py",
    "audits/results.py": "audits/test_audit.py",
    "audits/subjects.py": "audits/test_audit.py",
    "baselines/base.py": "baselines/test_methods.py",
    "baselines/catalogue.py": "baselines/test_methods.py",
    "baselines/convex.py": "baselines/test_methods.py",
    "baselines/mixtures/learned.py": "baselines/test_fedem.py",
    "baselines/multiplicative/lasso_kernels.py": (
        "baselines/multiplicative/test_row_lasso.py"
    ),
    "baselines/models.py": "baselines/test_methods.py",
    "baselines/multiplicative/row_steps.py": "protocols only",
    "cli/account.py": "cli/test_fit.py",
    "cli/columns.py": "cli/test_stats.py",
    "cli/demo.py": "cli/demonstration/test_showing.py",
    "cli/demonstration/digits.py": "cli/demonstration/test_trials.py",
    "cli/demonstration/patients.py": "cli/demonstration/test_trials.py",
    "cli/fitting.py": "cli/test_fit.py",
    "cli/prediction.py": "cli/test_predict.py",
    "cli/reading.py": "cli/test_fit.py",
    "cli/sites.py": "cli/test_merge.py",
    "data/raw_columns.py": "data/test_encoding.py",
    "engines/columns.py": "engines/test_batches.py",
    "engines/files.py": "engines/test_sources.py",
    "engines/filling.py": "engines/test_batches.py",
    "engines/fragments.py": "engines/test_sources.py",
    "engines/partitions.py": "engines/test_dask.py",
    "estimators/base.py": "estimators/test_regressor.py",
    "estimators/labels.py": "estimators/test_classifier.py",
    "estimators/linear.py": "estimators/test_regressor.py",
    "estimators/predictions.py": "estimators/test_regressor.py",
    "estimators/search_settings.py": "estimators/test_cross_validated.py",
    "estimators/searching.py": "estimators/test_cross_validated.py",
    "estimators/settings.py": "estimators/test_regressor.py",
    "estimators/setups.py": "estimators/test_regressor.py",
    "estimators/splits.py": "estimators/test_cross_validated.py",
    "estimators/summarizing.py": "estimators/test_summary.py",
    "estimators/summary_tables.py": "estimators/test_summary.py",
    "experiments/training.py": "experiments/test_methods.py",
    "intervals.py": "experiments/showing/test_comparisons.py",
    "losses/around.py": "losses/test_sums.py",
    "losses/base.py": "protocols only",
    "losses/outlier_model.py": "losses/test_outliers.py",
    "losses/tied_own.py": "losses/test_outliers.py",
    "penalties/base.py": "protocols only",
    "penalties/columns.py": "penalties/test_penalties.py",
    "penalties/l21.py": "penalties/test_penalties.py",
    "penalties/nuclear.py": "penalties/test_penalties.py",
    "penalties/schatten.py": "penalties/test_powers.py",
    "penalties/squared_nuclear.py": "penalties/test_powers.py",
    "penalties/task_kernel.py": "penalties/test_powers.py",
    "penalties/robust.py": "penalties/test_penalties.py",
    "solvers/kernels/samples.py": "solvers/engines/test_samples.py",
    "solvers/first_order/fista.py": "solvers/first_order/test_methods.py",
    "solvers/first_order/gd.py": "solvers/first_order/test_methods.py",
    "solvers/first_order/ista.py": "solvers/first_order/test_methods.py",
    "solvers/first_order/ista_reverse.py": "solvers/first_order/test_methods.py",
    "solvers/first_order/linear.py": "solvers/first_order/test_methods.py",
}


def files():
    paths = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    return sorted(str(path) for path in paths if path.name != "__init__.py")


@pytest.mark.parametrize("file", files())
def test_every_file_has_its_test_file(file):
    path = Path(file)
    mirror = path.parent / f"test_{path.name}"
    elsewhere = TESTED_ELSEWHERE.get(file)
    assert (TESTS / mirror).exists() != (elsewhere is not None)
    if elsewhere is not None and elsewhere.endswith(".py"):
        assert (TESTS / elsewhere).exists()


def test_public_names_exist_and_are_documented():
    for name in priormtl.__all__:
        assert getattr(priormtl, name).__doc__, name


def test_rooms_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, priormtl; print('numpy' in sys.modules)\n"
        "print(set(priormtl.__all__) <= set(dir(priormtl)))\n"
        "from priormtl import *; print(FeaturePrior is priormtl.FeaturePrior)\n"
        "print(priormtl.engines.__name__, priormtl.datasets.__name__)\n"
        "print(hasattr(priormtl, 'nothing'))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rooms = "priormtl.engines priormtl.datasets"
    assert result.stdout.splitlines() == ["False", "True", "True", rooms, "False"]


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
