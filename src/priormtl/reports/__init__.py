"""What did one model learn: a page to send to a colleague, and its content."""

from priormtl.reports.content import Block, Column, Content, Finding, Table
from priormtl.reports.making import Report, report

__all__ = ["Block", "Column", "Content", "Finding", "Report", "Table", "report"]
