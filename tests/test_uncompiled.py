"""NUMBA_DISABLE_JIT=1, as debuggers and coverage need it, changes no result."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncompiled
from watched_memory import beside_tests


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_loop_runs_without_numba(tmp_path):
    words = [sys.executable, uncompiled.__file__, str(tmp_path / "found")]
    done = subprocess.run(
        words,
        env=beside_tests() | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(Path(tmp_path / "found").read_text())
    expected = dict(uncompiled.fits())
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        error = np.abs(np.array(found[name]) - values).max()
        assert error <= 1e-6 * (1.0 + np.abs(values).max()), name
