import pytest

from optiml_core.records import Failure
from optiml_core.toolchain import CompiledKernel, KernelSass, Tool, Toolchain, sass_by_line
from optiml_core.toolchain.sass import read_listing
from optiml_core.toolchain.sass_instructions import access_bytes, instruction_class
from tests.toolchain.conftest import Compile


@pytest.mark.parametrize(
    ("opcode", "operands", "kind", "size"),
    [
        ("LDG.E.128", "R4, desc[UR6][R6.64]", "global_load", 16),
        ("LDG.E.64.CONSTANT", "R4, [R6.64]", "global_load", 8),
        ("LDG.E", "R4, [R6.64]", "global_load", 4),
        ("LDG.E.U8", "R4, [R6.64]", "global_load", 1),
        ("LDG.E.U16.CONSTANT", "R4, [R6.64]", "global_load", 2),
        ("STG.E.128", "[R6.64], R4", "global_store", 16),
        ("LDS.64", "R4, [R6]", "shared_load", 8),
        ("STS.128", "[R6], R4", "shared_store", 16),
        ("LDSM.16.M88.4", "R4, [R6]", "shared_load", 16),
        ("LDL.64", "R4, [R1]", "local_load", 8),
        ("STL", "[R1], R4", "local_store", 4),
        ("LDGSTS.E.BYPASS.128", "[R1], [R2.64]", "async_copy", 16),
        ("RED.E.ADD.F32.FTZ.RN", "[R2.64], R3", "atomic", 4),
        ("ATOMG.E.ADD.64", "PT, R2, [R2.64], R3", "atomic", 8),
        ("ATOMS.ADD", "RZ, [R2], R3", "atomic", 4),
        ("DFMA", "R2, R4, R6, R8", "fp64", None),
        ("FFMA.FTZ", "R2, R4, R6, R8", "fp32", None),
        ("HFMA2", "R2, R4, R6, R8", "fp16", None),
        ("HFMA2.MMA", "R0, -RZ, RZ, 0, 0", "move", None),
        ("HMMA.16816.F32", "R4, R8, R6, R4", "matrix", None),
        ("IMMA.16832.S8.S8", "R4, R8, R6, R4", "matrix", None),
        ("MUFU.RSQ", "R4, R8", "special", None),
        ("BAR.SYNC.DEFER_BLOCKING", "0x0", "barrier", None),
        ("SHFL.BFLY", "PT, R4, R8, 0x1, 0x1f", "shuffle", None),
        ("IMAD.WIDE", "R4, R8, 0x4, R6", "integer", None),
        ("IMAD.MOV.U32", "R4, RZ, RZ, R6", "move", None),
        ("LDC.64", "R4, c[0x0][0x210]", "constant_load", None),
        ("BRA", "`(.L_x_1)", "branch", None),
        ("NOP", "", "none", None),
        ("BRANDNEW", "R1", "other", None),
    ],
)
def test_instructions(opcode: str, operands: str, kind: str, size: int | None) -> None:
    assert instruction_class(opcode, operands) == kind
    assert access_bytes(kind, opcode) == size


LISTING = """
\t.section\t.text.k,"ax",@progbits
k:
.text.k:
\t//## File "/a.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
\t//## File "/a.cu", line 4
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR6][R6.64] ;
\t//## File "/h.cuh", line 9
        /*0020*/                   FADD R5, R4, R5 ;
\t//## File "/a.cu", line 4
        /*0030*/               @P1 BRA `(.L_x_1) ;
        /*0040*/                   EXIT ;
.L_x_2:
        /*0050*/                   BRA `(.L_x_2);
        /*0060*/                   NOP;
.L_x_9:
"""


def test_a_listing_is_read_by_line() -> None:
    (kernel,) = read_listing(LISTING).values()
    assert kernel.kernel == "k"
    assert kernel.instructions == 6
    assert [(line.file, line.line, line.instructions, line.loop_depth) for line in kernel.lines] == [
        ("/a.cu", 3, 1, 0),
        ("/a.cu", 4, 4, 1),
        ("/h.cuh", 9, 1, 1),
    ]
    line = kernel.line(4)
    assert line is not None
    assert dict(line.accesses) == {("global_load", 16): 1}
    assert [(loop.lines, loop.depth, loop.instructions) for loop in kernel.loops] == [((4,), 1, 3)]


@pytest.mark.parametrize("text", ["", "garbage\n" * 10, LISTING.replace("/*0030*/", "/*zz*/")])
def test_other_text_is_no_crash(text: str) -> None:
    read_listing(text)


# ------------------------------------------------------------------------------ what the compiler makes


def machine_code(compiled: Compile, toolchain: Toolchain, text: str, **options: object) -> KernelSass:
    if toolchain.path("nvdisasm") is None:
        pytest.skip("needs nvdisasm (extra `cuda`)")
    result = compiled(text, **options)
    assert isinstance(result, CompiledKernel), result
    kernels = sass_by_line(result.cubin, toolchain)
    assert not isinstance(kernels, Failure), kernels
    return kernels[result.lowered_name]


@pytest.mark.cuda_toolchain
def test_widths_loops_and_barriers_by_line(compiled: Compile, toolchain: Toolchain) -> None:
    code = machine_code(
        compiled,
        toolchain,
        """__global__ void k(const float4* x, float* y, double* z, int n) {
  __shared__ float tile[32];
  float4 v = x[threadIdx.x];
  tile[threadIdx.x] = v.x + v.y + v.z + v.w;
  __syncthreads();
  float s = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++)
#pragma unroll 1
    for (int j = 0; j < n; j++)
      s = s * y[i * j] + tile[j];
  y[threadIdx.x] = s;
  z[threadIdx.x] = z[threadIdx.x + 1] * 3.0;
  atomicAdd(y + n, s);
}
""",
    )
    expected = {
        3: ("global_load", 16),
        4: ("shared_store", 4),
        11: ("global_load", 4),
        12: ("global_store", 4),
        13: ("global_load", 8),
        14: ("atomic", 4),
    }
    for number, access in expected.items():
        line = code.line(number)
        assert line is not None
        assert access in line.accesses, (number, line)
    barrier, inner = code.line(5), code.line(11)
    assert barrier is not None
    assert inner is not None
    assert barrier.classes["barrier"] == 1
    assert inner.accesses["shared_load", 4] == 1
    assert (barrier.loop_depth, inner.loop_depth) == (0, 2)
    assert sorted(loop.depth for loop in code.loops) == [1, 2]
    assert code.classes["fp64"] == 1
    assert 0 < code.integer_share < 1


@pytest.mark.cuda_toolchain
def test_spills_and_matrix_instructions(compiled: Compile, toolchain: Toolchain) -> None:
    spilling = "__global__ void k(double* x, int n) {\n  double a[40];\n"
    spilling += "  for (int i = 0; i < 40; i++) a[i] = x[i * n];\n  for (int j = 0; j < n; j++)\n"
    spilling += "    for (int i = 0; i < 40; i++) a[i] = a[i] * a[(i + 7) % 40] + x[j];\n"
    spilling += "  for (int i = 0; i < 40; i++) x[i] = a[i];\n}"
    code = machine_code(compiled, toolchain, spilling, flags=("-maxrregcount=32",))
    assert code.classes["local_store"] > 20
    assert code.classes["local_load"] > 20
    assert code.classes["fp64"] >= 40
    matrix = """#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
"""
    assert machine_code(compiled, toolchain, matrix).classes["matrix"] >= 2


@pytest.mark.cuda_toolchain
def test_bytes_that_are_no_machine_code(toolchain: Toolchain) -> None:
    if toolchain.path("nvdisasm") is None:
        pytest.skip("needs nvdisasm (extra `cuda`)")
    for data in (b"", b"not an object", b"\x7fELF" + b"\xff" * 2000):
        assert isinstance(sass_by_line(data, toolchain), Failure)


def test_a_missing_disassembler_is_said() -> None:
    failure = sass_by_line(b"", Toolchain({"nvdisasm": Tool("nvdisasm", None, None, "it is gone", "get it")}))
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cure) == ("missing-tool", "get it")
