"""Who else solves it: the methods that the paper compares with, behind our calls."""

from priormtl.baselines.clmt import CLMT, CLMTClassifier

__all__ = ["CLMT", "CLMTClassifier"]
