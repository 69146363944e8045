"""Report of a fitted model: a page to send to a colleague, and its content."""

from priormtl.reports.build import Report, report
from priormtl.reports.content import Block, Column, Content, Finding, Table

__all__ = ["Block", "Column", "Content", "Finding", "Report", "Table", "report"]
