"""Checks of scikit-learn that are wrong in versions that we support."""

import sklearn
from packaging.version import Version
from sklearn.base import is_classifier

UNLIKE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "names classes by the first row"
    for kind in ("dense", "sparse")
}


def list_wrong_checks(estimator):
    """Before 1.7 the check fits other classes to repeated rows than to weighted."""
    old = Version(sklearn.__version__) < Version("1.7")
    return UNLIKE if old and is_classifier(estimator) else {}
