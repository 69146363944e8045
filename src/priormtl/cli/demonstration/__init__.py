"""The product's first minute: what a prior is worth, and a page that says so."""

from priormtl.cli.demonstration.showing import show_demonstration

__all__ = ["show_demonstration"]
