"""From .cu text to kernels, launch sites, loops and memory accesses; and edits of that text."""
