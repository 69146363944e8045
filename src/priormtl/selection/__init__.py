"""How strong: strengths and ties chosen from the data, on statistics of folds."""

__all__: list[str] = []
