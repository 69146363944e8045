"""Parts of MMTFL: alternation between shared scales and the tasks' own weights."""
