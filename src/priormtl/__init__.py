"""Multi-task learning with prior information, certified and native to scikit-learn."""

__version__ = "0.1.0"
