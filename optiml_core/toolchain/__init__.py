"""Compilers in limited child processes, resource usage, machine code, occupancy, GPU facts, discovery."""
