"""Schemas of rows: the fields that were agreed on."""

import pyarrow as pa
import pytest

from priormtl.experiments.rows import CONVERGENCE, KINDS, ROC, SCORES, SURFACES
from result_rows import FIELDS, convergence_rows, roc_rows, surface_rows


def test_every_kind_has_its_schema():
    assert KINDS == {
        "scores": SCORES,
        "convergence": CONVERGENCE,
        "roc": ROC,
        "surfaces": SURFACES,
    }


def test_scores_have_the_fields_that_tables_are_made_from():
    assert pa.schema(FIELDS) == SCORES


@pytest.mark.parametrize(
    ("make", "schema"),
    [
        (convergence_rows, CONVERGENCE),
        (roc_rows, ROC),
        (surface_rows, SURFACES),
    ],
)
def test_other_rows_have_the_fields_that_figures_are_made_from(make, schema):
    assert make().schema.names == schema.names
