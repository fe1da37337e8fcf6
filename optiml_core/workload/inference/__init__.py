"""A workload from what a file says anyway: its host code, the kernel's signature and its index bounds."""
