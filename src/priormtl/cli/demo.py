"""priormtl demo: what a prior is worth when samples are few."""

__all__ = ["demo"]


def demo() -> None:
    """Fit related tasks from few samples, with and without prior.

    Example: priormtl demo
    """
    from priormtl.cli.demonstration import show_demonstration  # noqa: PLC0415

    show_demonstration()
