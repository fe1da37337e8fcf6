"""Two rewrites as one step: private counters of a few blocks, and edits that are whole lines."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure, LaunchChange
from optiml_core.rewrites import Option, Refusal, Rewritten
from optiml_core.rewrites.sequence import line_edits
from optiml_core.source import apply_edits
from optiml_core.toolchain import gpu_facts
from optiml_core.workload import find_workload, resolve_launch
from rewrites.cases import context_of, text_after, unit_of
from rewrites.running import run, same
from rewrites.test_properties import named

HISTOGRAM = """
// optiml: n = 1000000, x[n]: uniform(0, 60), bins[40]: zeros, block = 64, grid = ceil_div(n, 64)
__global__ void f(const int* x, int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    if (x[i] < 40) atomicAdd(&bins[x[i]], 1);
  }
}
void g(const int* a, int* b, int n) {
  const int blocks = (n + 63) / 64;
  f<<<blocks, 64>>>(a, b, n);
}
"""


def test_private_counters_of_as_many_blocks_as_fill_the_gpu() -> None:
    rewrite = named("privatize-atomics")
    gpu = gpu_facts("H200")
    assert not isinstance(gpu, Failure)
    launch = resolve_launch(find_workload(unit_of(HISTOGRAM), unit_of(HISTOGRAM).kernels[0]))
    assert not isinstance(launch, Failure)
    context = evolve(context_of(HISTOGRAM), gpu=gpu, launch=launch)
    options = rewrite.options(context)
    assert not isinstance(options, Refusal), options
    assert options[0].parameters == {"bins": 256, "blocks": 528}
    made = rewrite.apply(context, options[0])
    assert isinstance(made, Rewritten), made
    after = text_after(context, made)
    assert "f<<<(blocks < 528 ? blocks : 528), 64>>>(a, b, n);" in after
    assert "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)" in after
    assert made.launch_change.grid is not None
    for size in (1, 63, 1000, 40000):
        expected = run(HISTOGRAM, {"n": size}, HISTOGRAM, LaunchChange())
        got = run(after, {"n": size}, HISTOGRAM, made.launch_change, schedule=2)
        assert not got.faults
        for name, array in expected.buffers.items():
            same(array, got.buffers[name], 0.0, f"{name} at {size}")


def test_a_small_launch_keeps_its_blocks() -> None:
    gpu = gpu_facts("H200")
    assert not isinstance(gpu, Failure)
    kernel = unit_of(HISTOGRAM).kernels[0]
    launch = resolve_launch(find_workload(unit_of(HISTOGRAM), kernel), 0, {"n": 5000})
    assert not isinstance(launch, Failure)
    options = named("privatize-atomics").options(evolve(context_of(HISTOGRAM), gpu=gpu, launch=launch))
    assert not isinstance(options, Refusal)
    assert all("blocks" not in option.parameters for option in options)
    assert isinstance(options[0], Option)


@given(st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n"])), st.lists(st.sampled_from(["a\n", "b\n", "d\n"])))
def test_line_edits_turn_one_text_into_the_other(before: list[str], after: list[str]) -> None:
    old, new = "".join(before).encode(), "".join(after).encode()
    assert apply_edits(old, line_edits("f", old, new)) == new
