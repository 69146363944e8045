"""Structure of the paper's objective, for searches that only choose strengths."""

PAPER = {
    "task_prior": "chain",
    "ties": "uniform",
    "fit_intercept": True,
    "intercept_strength": 1.0,
    "standardize": False,
}
