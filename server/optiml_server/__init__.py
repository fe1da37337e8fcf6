"""The OptiML language server: a thin adapter between LSP and optiml_core."""
