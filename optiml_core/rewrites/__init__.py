"""The catalogue of deterministic rewrites: one module per rewrite."""
