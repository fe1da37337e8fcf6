"""Reading SASS and PTX: units, registers, lines, blocks, loops."""

from __future__ import annotations

import itertools

import pytest

from optiml_core.profiling.machine_code.blocks import basic_blocks, natural_loops
from optiml_core.profiling.machine_code.instructions import Instruction, MachineCode
from optiml_core.profiling.machine_code.ptx import read_ptx
from optiml_core.profiling.machine_code.sass import read_sass

SASS_HEAD = '\t.section\t.text.kernel,"ax",@progbits\n.text.kernel:\n'


def sass(*lines: str) -> MachineCode:
    code = read_sass(SASS_HEAD + "\n".join(lines), "k.cu", "kernel")
    assert code is not None
    return code


def one(text: str) -> Instruction:
    return sass(f"        /*0000*/                   {text} ;").instructions[0]


@pytest.mark.parametrize(
    ("text", "unit", "writes", "reads"),
    [
        ("FFMA R8, R9, R12, 0.5", "fp32", "R8", "R9 R12"),
        ("FADD R9, R8.reuse, -R3", "fp32", "R9", "R8 R3"),
        ("DADD R16, R16, R10", "fp64", "R16 R17", "R16 R17 R10 R11"),
        ("F2F.F64.F32 R12, R19", "conversion", "R12 R13", "R19"),
        ("MUFU.EX2 R20, R20", "special", "R20", "R20"),
        ("IADD3 R6, P4, R6, 0x40, RZ", "integer", "R6 P4", "R6"),
        ("IMAD.X R7, RZ, RZ, R7, P4", "integer", "R7", "R7 P4"),
        ("IMAD.WIDE R2, R13, 0x10, R2", "integer", "R2 R3", "R13 R2 R3"),
        ("ISETP.GT.AND P3, PT, R8, 0xc, PT", "integer", "P3", "R8"),
        ("FSETP.GT.AND P2, PT, R24, R3, PT", "fp32", "P2", "R24 R3"),
        ("FSEL R3, R24, R3, P2", "fp32", "R3", "R24 R3 P2"),
        ("LDG.E R24, desc[UR4][R6.64+-0x8]", "memory", "R24", "UR4 R6 R7"),
        ("LDG.E.128 R4, desc[UR6][R2.64]", "memory", "R4 R5 R6 R7", "UR6 R2 R3"),
        ("STG.E desc[UR4][R8.64+-0x8], R19", "memory", "", "UR4 R8 R9 R19"),
        ("STG.E.128 desc[UR6][R2.64], R8", "memory", "", "UR6 R2 R3 R8 R9 R10 R11"),
        ("LDS.64 R10, [R9+UR4]", "memory", "R10 R11", "R9 UR4"),
        ("SHFL.BFLY PT, R0, R6, 0x4, 0x1f", "shuffle", "R0", "R6"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R4.64], R5", "memory", "R2", "UR4 R4 R5 R5"),
        ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR6][R4.64], R8", "memory", "", "UR6 R4 R5 R8"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", "", ""),
        ("S2R R5, SR_CTAID.X", "uniform", "R5", ""),
        ("HMMA.16816.F32 R4, R8, R12, R4", "tensor", "R4 R5 R6 R7", "R8 R9 R10 R11 R12 R13 R4 R5 R6 R7"),
    ],
)
def test_registers_of_machine_instructions(text: str, unit: str, writes: str, reads: str) -> None:
    instruction = one(text)
    assert instruction.unit == unit
    assert " ".join(instruction.writes) == writes
    assert " ".join(instruction.reads) == reads


@pytest.mark.parametrize(
    ("text", "memory", "space", "size"),
    [
        ("LDG.E.CONSTANT R5, desc[UR6][R4.64]", "load", "global", 4),
        ("LDG.E.64.CONSTANT R5, desc[UR6][R4.64]", "load", "global", 8),
        ("LDG.E.U8 R5, desc[UR6][R4.64]", "load", "global", 1),
        ("LDG.E.U16 R5, desc[UR6][R4.64]", "load", "global", 2),
        ("STS.128 [R3], R4", "store", "shared", 16),
        ("LDL R4, [R1+0x8]", "load", "local", 4),
        ("STL.64 [R1], R4", "store", "local", 8),
        ("ATOMS.ADD RZ, [R0], R4", "atomic", "shared", 4),
        ("LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]", "load", "global", 16),
        ("FADD R1, R2, R3", None, None, 0),
    ],
)
def test_memory_instructions(text: str, memory: str | None, space: str | None, size: int) -> None:
    instruction = one(text)
    assert (instruction.memory, instruction.space, instruction.size) == (memory, space, size)
    assert instruction.asynchronous == text.startswith("LDGSTS")


def test_a_guard_is_read_and_an_inlined_function_keeps_its_own_line() -> None:
    code = sass(
        '\t//## File "/somewhere/k.cu", line 4',
        "        /*0000*/               @!P0 FMUL R0, R0, 0.5 ;",
        '\t//## File "/somewhere/k.cu", line 2 inlined at "/somewhere/k.cu", line 8',
        '\t//## File "/somewhere/k.cu", line 8',
        "        /*0010*/                   FMUL R0, R4, 1.5 ;",
        '\t//## File "/cuda/math.hpp", line 300 inlined at "/somewhere/k.cu", line 9',
        '\t//## File "/somewhere/k.cu", line 9',
        "        /*0020*/                   MUFU.RCP R1, R0 ;",
        '\t//## File "/cuda/math.hpp", line 7',
        "        /*0030*/                   MUFU.RCP R1, R0 ;",
    )
    assert [instruction.line for instruction in code.instructions] == [4, 2, 9, 0]
    assert code.instructions[0].reads == ("P0", "R0")


LOOP = [
    "        /*0000*/                   MOV R0, RZ ;",
    ".L_x_1:",
    "        /*0010*/                   LDG.E R4, desc[UR4][R6.64] ;",
    "        /*0020*/              @!P1 BRA `(.L_x_2) ;",
    "        /*0030*/                   FADD R0, R0, R4 ;",
    ".L_x_2:",
    "        /*0040*/                   ISETP.NE.AND P0, PT, R9, RZ, PT ;",
    "        /*0050*/               @P0 BRA `(.L_x_1) ;",
    "        /*0060*/                   EXIT ;",
    ".L_x_3:",
    "        /*0070*/                   BRA `(.L_x_3);",
    "        /*0080*/                   NOP;",
]


def test_blocks_and_loops() -> None:
    code = sass(*LOOP)
    assert [(block.start, block.end, block.successors) for block in code.blocks] == [
        (0, 1, (1,)),
        (1, 3, (3, 2)),
        (3, 4, (3,)),
        (4, 6, (1, 4)),
        (6, 7, ()),
        (7, 8, (5,)),
    ]
    # The branch to itself after the end is padding that nothing reaches.
    assert [(loop.header, sorted(loop.blocks)) for loop in code.loops] == [(1, [1, 2, 3])]
    assert code.loop_of_block(2) == 0
    assert code.loop_of_block(4) is None


def test_nested_loops_know_their_parents() -> None:
    def go(target: str | None = None, guarded: bool = False) -> Instruction:
        return Instruction("bra", "control", 1, target=target, guarded=guarded)

    plain = Instruction("x", "integer", 1)
    instructions = [plain, plain, go("inner", True), plain, go("outer", True), go("end"), plain]
    blocks = basic_blocks(instructions, {"outer": 0, "inner": 1, "end": 6})
    loops = natural_loops(blocks)
    assert [(loop.depth, loop.parent) for loop in loops] == [(1, None), (2, 0)]
    assert loops[1].blocks < loops[0].blocks


PTX = """
.visible .entry kernel(
	.param .u64 kernel_param_0,
	.param .u32 kernel_param_1
)
{
	.reg .pred 	%p<3>;
	.reg .f32 	%f<9>;
	.loc	1 4 0
	ld.param.u64 	%rd1, [kernel_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r3, %tid.x;
$L__BB0_1:
	.pragma "nounroll";
	.loc	1 2 4, function_name $L__info_string0, inlined_at 1 8 3
	ld.global.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd2+16];
	.loc	2 77 4, function_name $L__info_string1, inlined_at 1 9 3
	div.rn.f32 	%f5, %f1, %f2;
	.loc	1 10 3
	st.global.f32 	[%rd2+-4], %f5;
	add.s64 	%rd2, %rd2, 16;
	setp.ne.s32 	%p1, %r3, 0;
	@%p1 bra 	$L__BB0_1;
	bar.sync 	0;
	ld.shared.f64 	%fd1, [%r9];
	ld.global.nc.f32 	%f6, [%rd2];
	atom.global.add.f32 	%f7, [%rd2], %f6;
	cp.async.cg.shared.global [%r1], [%rd2], 16;
	cp.async.wait_group 0;
	ret;
}
	.file	1 "/somewhere/k.cu"
	.file	2 "/cuda/math.hpp"
"""


def test_ptx_is_read_into_the_same_records() -> None:
    code = read_ptx(PTX, "k.cu", "kernel")
    assert code is not None
    assert read_ptx(PTX, "k.cu", "other") is None
    by_name = {instruction.opcode: instruction for instruction in code.instructions}
    load = by_name["ld.global.v4.f32"]
    assert (load.memory, load.space, load.size, load.base, load.offset) == ("load", "global", 16, "%rd2", 16)
    assert load.writes == ("%f1", "%f2", "%f3", "%f4")
    assert load.line == 2
    store = by_name["st.global.f32"]
    assert (store.writes, store.reads, store.offset, store.line) == ((), ("%rd2", "%f5"), -4, 10)
    assert by_name["ld.global.nc.f32"].read_only
    assert by_name["ld.shared.f64"].size == 8
    assert by_name["atom.global.add.f32"].memory == "atomic"
    copy = by_name["cp.async.cg.shared.global"]
    assert (copy.asynchronous, copy.size, copy.memory) == (True, 16, "load")
    assert by_name["DEPBAR"].unit == "barrier"
    assert by_name["mov.u32"].slots == 0
    assert by_name["add.s64"].slots == 2
    assert len(code.loops) == 1
    assert code.not_unrolled == {code.blocks[code.loops[0].header].start}


def test_a_division_becomes_a_chain_that_ends_in_its_result() -> None:
    code = read_ptx(PTX, "k.cu", "kernel")
    assert code is not None
    chain = [instruction for instruction in code.instructions if instruction.opcode == "div.rn.f32"]
    assert [instruction.unit for instruction in chain] == ["special", *["fp32"] * 7]
    assert {instruction.line for instruction in chain} == {9}
    assert chain[0].reads == ("%f1", "%f2")
    assert chain[-1].writes == ("%f5",)
    assert all(later.reads == before.writes for before, later in itertools.pairwise(chain))
