"""Methods to compare with: those of the paper and usual ones, as estimators."""

from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.comparison import compare, list_methods
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mkmtl import (
    MKMTL,
    Gaussian,
    Linear,
    MKMTLClassifier,
    Polynomial,
)
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.baselines.ridge import (
    PooledRidge,
    PooledRidgeClassifier,
    SingleTaskRidge,
    SingleTaskRidgeClassifier,
)
from priormtl.baselines.tuned import (
    BASELINES,
    CLASSIFIERS,
    REFERENCES,
    TunedClassifier,
    TunedRegressor,
    tuned,
)
from priormtl.baselines.two_parts import DMTL, RMTL, DMTLClassifier, RMTLClassifier
from priormtl.baselines.usual import USUAL, UsualClassifier, UsualRegressor

__all__ = [
    "BASELINES",
    "CLASSIFIERS",
    "CLMT",
    "DMTL",
    "MKMTL",
    "MMTFL",
    "MTFL",
    "MTRL",
    "REFERENCES",
    "RMTL",
    "USUAL",
    "CLMTClassifier",
    "DMTLClassifier",
    "FedEM",
    "FedEMClassifier",
    "Gaussian",
    "Linear",
    "MKMTLClassifier",
    "MMTFLClassifier",
    "MTFLClassifier",
    "MTRLClassifier",
    "Polynomial",
    "PooledRidge",
    "PooledRidgeClassifier",
    "RMTLClassifier",
    "SingleTaskRidge",
    "SingleTaskRidgeClassifier",
    "TunedClassifier",
    "TunedRegressor",
    "UsualClassifier",
    "UsualRegressor",
    "compare",
    "list_methods",
    "tuned",
]
