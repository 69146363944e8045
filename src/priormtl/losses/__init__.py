"""Losses bound to data, with intercepts minimised out."""

from priormtl.losses.base import (
    DataFit,
    DelegateFit,
    Evaluation,
    FreeIntercepts,
    Intercepts,
    Loss,
    NoIntercepts,
    NormalForm,
    SampleForm,
    TiedIntercepts,
)
from priormtl.losses.family import Family, FamilyEvaluation, FamilyFit, row_slopes
from priormtl.losses.gamma import Gamma
from priormtl.losses.logistic import Logistic
from priormtl.losses.multinomial import ClassRows, Multinomial, MultinomialFit, by_class
from priormtl.losses.negative_binomial import NegativeBinomial
from priormtl.losses.outliers import OutlierEvaluation, OutlierFit
from priormtl.losses.poisson import Poisson
from priormtl.losses.squared import Squared, SquaredFit
from priormtl.losses.sums import SumFit

# Losses by name; that of squared error has statistics, and is no family.
FAMILIES: dict[str, type[Family]] = {
    kind.name: kind for kind in (Logistic, Poisson, Gamma, NegativeBinomial)
}


def find_family(
    loss: str, dispersion: float | None = None, n_classes: int = 2
) -> Family | None:
    """Family of this name; None for squared loss.

    One class alone has nothing to learn: scores are those of squared loss, zero.
    """
    if loss == "logistic" and n_classes == 1:
        return None
    if loss == "logistic" and n_classes > 2:
        return Multinomial(n_classes)
    if loss not in FAMILIES:
        return None
    kind = FAMILIES[loss]
    if dispersion is None or not kind.has_dispersion:
        return kind()
    return kind(dispersion)  # type: ignore[call-arg]
