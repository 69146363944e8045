"""Parts of MTFL: groups of tasks, the norm over their lattice, and its reweighting."""
