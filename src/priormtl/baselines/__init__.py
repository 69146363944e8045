"""Who else solves it: the methods that the paper compares with, behind our calls."""

from priormtl.baselines.catalogue import BASELINES, CLASSIFIERS
from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mkmtl import MKMTL, MKMTLClassifier
from priormtl.baselines.mmtfl import MMTFL, MMTFLClassifier
from priormtl.baselines.mtfl import MTFL, MTFLClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.baselines.tuned import TunedClassifier, TunedRegressor, tuned

__all__ = [
    "BASELINES",
    "CLASSIFIERS",
    "CLMT",
    "MKMTL",
    "MMTFL",
    "MTFL",
    "MTRL",
    "CLMTClassifier",
    "FedEM",
    "FedEMClassifier",
    "MKMTLClassifier",
    "MMTFLClassifier",
    "MTFLClassifier",
    "MTRLClassifier",
    "TunedClassifier",
    "TunedRegressor",
    "tuned",
]
