"""Same input, same result: in every process, and on any number of threads."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow  # every fit has a process of its own

CODE = """
import sys
import numpy as np
from priormtl import FeaturePrior, MultiTaskRegressor, MultiTaskClassifier
from priormtl.datasets import make_related_tasks
data = make_related_tasks(12, 40, 60, random_state=0)
prior = FeaturePrior.from_correlation(5)
model = MultiTaskRegressor(5.0, feature_prior=prior, tol=1e-12)
a = model.fit(data.X, data.y, task=data.task).coef_
b = MultiTaskClassifier(tol=1e-10).fit(data.X, data.y > 0, task=data.task).coef_
sys.stdout.buffer.write(np.stack([a, b]).tobytes())
"""


def coefficients(threads, seed):
    environment = os.environ | {
        "OPENBLAS_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "PYTHONHASHSEED": str(seed),
    }
    command = [sys.executable, "-c", CODE]
    result = subprocess.run(command, capture_output=True, check=True, env=environment)
    return np.frombuffer(result.stdout).reshape(2, 12, 40)


@pytest.fixture(scope="module")
def one_thread():
    return coefficients(1, 0)


def test_another_process_gives_the_same_bits(one_thread):
    assert np.array_equal(coefficients(1, 1), one_thread)


def test_more_threads_change_rounding_only(one_thread):
    more = coefficients(4, 0)
    assert np.array_equal(more != 0, one_thread != 0)
    assert more[0] == pytest.approx(one_thread[0], abs=1e-12)
    assert more[1] == pytest.approx(one_thread[1], abs=1e-10)
