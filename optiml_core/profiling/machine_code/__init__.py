"""What the compiler made of a kernel: instructions with their lines, basic blocks, loops, a warp's schedule."""
