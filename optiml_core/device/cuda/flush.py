"""Empties L2 before a timed launch, so that the launch finds nothing there, and has nothing to write back either.

A fill would leave the cache full of changed lines, whose writing back then counts against the launch (5 % of a copy of
100 us on an H200, and the reason why times with a filled cache did not agree with Nsight Compute's). Reading through a
buffer twice the cache's size leaves lines that can simply be dropped.
"""

from __future__ import annotations

from typing import Any

BLOCKS, THREADS = 1024, 256
VECTOR = 16  # bytes a thread reads at once

# Each thread reads every so many-th vector and keeps a value alive that nobody can foresee; nothing is ever stored,
# since the sum of zeros is not the number asked for.
READ_THROUGH = """
.version 6.3
.target sm_70
.address_size 64
.visible .entry read_through(.param .u64 start, .param .u64 vectors)
{
  .reg .pred %more, %odd;
  .reg .b32 %block, %threads, %thread, %blocks, %a, %b, %c, %d, %sum;
  .reg .b64 %at, %index, %step, %count, %wide;
  ld.param.u64 %at, [start];
  ld.param.u64 %count, [vectors];
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %index, %block, %threads;
  cvt.u64.u32 %wide, %thread;
  add.u64 %index, %index, %wide;
  mul.wide.u32 %step, %blocks, %threads;
  mov.u32 %sum, 0;
again:
  setp.lt.u64 %more, %index, %count;
  @!%more bra done;
  shl.b64 %wide, %index, 4;
  add.u64 %wide, %at, %wide;
  ld.global.cg.v4.u32 {%a, %b, %c, %d}, [%wide];
  xor.b32 %sum, %sum, %a;
  xor.b32 %sum, %sum, %b;
  xor.b32 %sum, %sum, %c;
  xor.b32 %sum, %sum, %d;
  add.u64 %index, %index, %step;
  bra again;
done:
  setp.eq.u32 %odd, %sum, 305419896;
  @%odd st.global.u32 [%at], %sum;
  ret;
}
"""


class CacheFlush:
    """A buffer of zeros twice the size of L2, and the kernel that reads through it. Belongs to one context."""

    def __init__(self, driver: Any, l2_bytes: int) -> None:
        size = 2 * max(l2_bytes, 8 << 20)
        self._allocation = driver.mem_alloc(size)
        driver.memset_d8(int(self._allocation), 0, size)
        self._module = driver.module_from_buffer(READ_THROUGH.encode() + b"\0")
        self._function = self._module.get_function("read_through")
        self._arguments = int(self._allocation).to_bytes(8, "little") + (size // VECTOR).to_bytes(8, "little")

    def submit(self, stream: Any) -> None:
        """Queues one pass over the buffer."""
        self._function._launch_kernel((BLOCKS, 1, 1), (THREADS, 1, 1), self._arguments, 0, stream)
