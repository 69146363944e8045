"""Who else solves it: the methods that the paper compares with, behind our calls."""

from priormtl.baselines.catalogue import BASELINES, CLASSIFIERS
from priormtl.baselines.clmt import CLMT, CLMTClassifier
from priormtl.baselines.mtrl import MTRL, MTRLClassifier
from priormtl.baselines.tuned import TunedClassifier, TunedRegressor, tuned

__all__ = [
    "BASELINES",
    "CLASSIFIERS",
    "CLMT",
    "MTRL",
    "CLMTClassifier",
    "MTRLClassifier",
    "TunedClassifier",
    "TunedRegressor",
    "tuned",
]
