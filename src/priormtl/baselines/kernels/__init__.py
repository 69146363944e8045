"""Compiled inner loops of compared methods, on plain arrays."""
