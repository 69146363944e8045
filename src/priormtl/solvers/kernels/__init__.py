"""Compiled inner loops on plain arrays, nothing else.

Letters: k rows (features), m tasks; ``gram`` (k, k, m) with tasks last, so that every
inner loop runs over contiguous memory.
"""
