"""What is measured: one file per row of the table of goals."""
