"""The CPU emulator for CUDA kernels: the device of every machine without a GPU."""
