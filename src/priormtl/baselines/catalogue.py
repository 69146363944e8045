"""BASELINES: the compared methods by name, in the order of the paper's columns.

REFERENCES are simpler methods, which say what learning tasks together is worth.
"""

from collections.abc import Iterable, Mapping

from priormtl.baselines.base import Baseline
from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.dmtl import DMTL, DMTLClassifier
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mkmtl import MKMTL, MKMTLClassifier
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.baselines.ridge import (
    PooledRidge,
    PooledRidgeClassifier,
    SingleTaskRidge,
    SingleTaskRidgeClassifier,
)
from priormtl.baselines.rmtl import RMTL, RMTLClassifier
from priormtl.exceptions import unknown_name

__all__ = [
    "BASELINES",
    "CLASSIFIERS",
    "REFERENCES",
    "REFERENCE_CLASSIFIERS",
    "find_baseline",
    "spell_method",
]

BASELINES: Mapping[str, type[Baseline]] = {
    "fedem": FedEM,
    "dmtl": DMTL,
    "mtfl": MTFL,
    "mmtfl": MMTFL,
    "mtrl": MTRL,
    "rmtl": RMTL,
    "clmt": CLMT,
    "mkmtl": MKMTL,
}

CLASSIFIERS: Mapping[str, type[Baseline]] = {
    "fedem": FedEMClassifier,
    "dmtl": DMTLClassifier,
    "mtfl": MTFLClassifier,
    "mmtfl": MMTFLClassifier,
    "mtrl": MTRLClassifier,
    "rmtl": RMTLClassifier,
    "clmt": CLMTClassifier,
    "mkmtl": MKMTLClassifier,
}

REFERENCES: Mapping[str, type[Baseline]] = {
    "ridge-single": SingleTaskRidge,
    "ridge-pooled": PooledRidge,
}

REFERENCE_CLASSIFIERS: Mapping[str, type[Baseline]] = {
    "ridge-single": SingleTaskRidgeClassifier,
    "ridge-pooled": PooledRidgeClassifier,
}


def find_baseline(name: str, *, classify: bool = False) -> type[Baseline]:
    """Class of a method for numbers, or for two classes per task; in any case."""
    known = {**BASELINES, **REFERENCES}
    if classify:
        known = {**CLASSIFIERS, **REFERENCE_CLASSIFIERS}
    return known[spell_method(name, known)]


def spell_method(name: str, known: Iterable[str]) -> str:
    """Name as it is known, however its letters are written: RMTL is rmtl."""
    names = list(known)
    written = name.casefold() if isinstance(name, str) else name
    if written not in names:
        raise unknown_name("method", name, names)
    return written
