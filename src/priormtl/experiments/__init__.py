"""What the paper claims, measured again: rows of results, tables, figures, a page."""
