"""Training pairs from our own rewrites and recipes: randomised kernels and descriptions, each pair verified."""
