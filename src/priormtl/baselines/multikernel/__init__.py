"""Parts of MKMTL: kernels, their features, and norms over kernels and tasks."""
