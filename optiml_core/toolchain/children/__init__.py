"""What runs in child processes: scripts that need nothing but the standard library, started with ``python -I -S``."""
