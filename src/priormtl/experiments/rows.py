"""Schemas of result rows: tidy, one kind of result each."""

import pyarrow as pa

__all__ = ["CONVERGENCE", "KINDS", "ROC", "SCORES", "SURFACES"]

SCORES = pa.schema(
    [
        ("dataset", pa.string()),
        ("method", pa.string()),
        ("size", pa.int32()),  # training rows per task, or images per class; or null
        ("wrong", pa.float64()),  # share of wrong relations, or null
        ("repeat", pa.int32()),
        ("metric", pa.string()),
        ("task", pa.string()),  # null: over all tasks
        ("value", pa.float64()),
        ("seconds", pa.float64()),  # tuning and fit, CPU time
        ("strengths", pa.string()),  # JSON
        ("version", pa.string()),
    ]
)
CONVERGENCE = pa.schema(
    [
        ("problem", pa.string()),
        ("algorithm", pa.string()),
        ("iteration", pa.int32()),
        ("seconds", pa.float64()),
        ("excess", pa.float64()),  # objective minus optimum
        ("start", pa.float64()),  # the same at P = 0
    ]
)
ROC = pa.schema(
    [
        ("dataset", pa.string()),
        ("method", pa.string()),
        ("repeat", pa.int32()),
        ("task", pa.string()),
        ("fpr", pa.float64()),
        ("tpr", pa.float64()),
        ("auc", pa.float64()),
    ]
)
SURFACES = pa.schema(
    [
        ("dataset", pa.string()),
        ("repeat", pa.int32()),
        ("lam", pa.float64()),
        ("theta", pa.float64()),
        ("epsilon", pa.float64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)
KINDS = {
    "scores": SCORES,
    "convergence": CONVERGENCE,
    "roc": ROC,
    "surfaces": SURFACES,
}
