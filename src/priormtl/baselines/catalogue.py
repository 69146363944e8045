"""BASELINES: the compared methods by name, in the order of the paper's columns."""

from collections.abc import Mapping

from priormtl.baselines.base import Baseline
from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mkmtl import MKMTL, MKMTLClassifier
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.exceptions import unknown_name

__all__ = ["BASELINES", "CLASSIFIERS", "find_baseline"]

BASELINES: Mapping[str, type[Baseline]] = {
    "fedem": FedEM,
    "mtfl": MTFL,
    "mmtfl": MMTFL,
    "mtrl": MTRL,
    "clmt": CLMT,
    "mkmtl": MKMTL,
}

CLASSIFIERS: Mapping[str, type[Baseline]] = {
    "fedem": FedEMClassifier,
    "mtfl": MTFLClassifier,
    "mmtfl": MMTFLClassifier,
    "mtrl": MTRLClassifier,
    "clmt": CLMTClassifier,
    "mkmtl": MKMTLClassifier,
}


def find_baseline(name: str, *, classify: bool = False) -> type[Baseline]:
    """Class of a method for numbers, or for two classes per task."""
    if name not in BASELINES:
        raise unknown_name("method", name, BASELINES)
    return (CLASSIFIERS if classify else BASELINES)[name]
