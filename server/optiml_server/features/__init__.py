"""One module per LSP feature; importing a module registers nothing, ``register`` does."""
