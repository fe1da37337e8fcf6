"""One Profile from emulator counts, static analysis or Nsight Compute; roofline; findings."""
