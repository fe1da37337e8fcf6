"""Families of kernels over a line of elements: maps, grid-stride loops, reductions by blocks, histograms."""

from __future__ import annotations

import random

from optiml_core.bench.training_pairs.expressions import element_expression, literal
from optiml_core.bench.training_pairs.kernels import Draw, KernelText, kernel_text
from optiml_core.bench.training_pairs.style import coordinate, guarded, loop


def elementwise(rng: random.Random) -> KernelText:
    """One element a thread, from one to three arrays, sometimes in place, sometimes with double literals."""
    draw = Draw(rng)
    ctype = draw.ctype()
    n, i = draw.name.length(), draw.name.index()
    inputs = [draw.name.array() for _ in range(rng.choice([1, 2, 2, 3]))]
    output = draw.name.array()
    scalars = [draw.name.scalar()] if rng.random() < 0.4 else []
    wide = ctype == "float" and rng.random() < 0.35
    terms = [f"{name}[{i}]" for name in inputs] + scalars
    value = element_expression(rng, terms, ctype, wide)
    body = [f"{output}[{i}] = {value};"]
    if rng.random() < 0.4:
        local = draw.name.sum()
        second = rng.choice(inputs)
        body = [
            f"{ctype} {local} = {value};",
            f"{output}[{i}] = {element_expression(rng, [local, f'{second}[{i}]'], ctype, wide)};",
        ]
    in_place = rng.random() < 0.2
    if in_place:
        body.append(f"{inputs[0]}[{i}] += {literal(rng, ctype)};")
    name = draw.name.kernel("scale", "axpy", "activate", "elementwise", "blend", "combine", "update")
    block, size = draw.line_block(), draw.line_size()
    declaration = [
        f"{n} = {size}"
        + "".join(f", {scalar} = {'3' if ctype == 'int' else '0.5'}" for scalar in scalars)
        + "".join(f", {one}[{n}]: {draw.content(ctype)}" for one in inputs)
        + f", {output}[{n}]",
        f"block = {block}, grid = ceil_div({n}, {block})",
    ]
    constant = ["" if in_place and one == inputs[0] else "const " for one in inputs]
    parameters = [f"{c}{ctype}* {one}" for c, one in zip(constant, inputs, strict=True)]
    parameters += [f"{ctype}* {output}", *(f"{ctype} {scalar}" for scalar in scalars), f"int {n}"]
    whole = [coordinate(draw.style, i), *guarded(draw.style, [(i, n)], body)]
    return kernel_text(draw, "elementwise", name, declaration, parameters, whole)


def grid_stride(rng: random.Random) -> KernelText:
    """A map in a grid-stride loop."""
    draw = Draw(rng)
    ctype = draw.ctype()
    n, i = draw.name.length(), draw.name.index()
    inputs = [draw.name.array() for _ in range(rng.choice([1, 2]))]
    output = draw.name.array()
    value = element_expression(rng, [f"{one}[{i}]" for one in inputs], ctype, rng.random() < 0.3)
    block, blocks = draw.line_block(), rng.choice([66, 132, 264, 512])
    start = "threadIdx.x + blockIdx.x * blockDim.x" if draw.style.thread_first else (
        "blockIdx.x * blockDim.x + threadIdx.x")  # fmt: skip
    stride = rng.choice(["gridDim.x * blockDim.x", "blockDim.x * gridDim.x"])
    body = [f"for (int {i} = {start}; {i} < {n}; {i} += {stride}) {{", f"{output}[{i}] = {value};", "}"]
    declaration = [
        f"{n} = {draw.line_size()}"
        + "".join(f", {one}[{n}]: {draw.content(ctype)}" for one in inputs)
        + f", {output}[{n}]",
        f"block = {block}, grid = {blocks}",
    ]
    parameters = [*(f"const {ctype}* {one}" for one in inputs), f"{ctype}* {output}", f"int {n}"]
    name = draw.name.kernel("stride_map", "scale_all", "transform_all")
    return kernel_text(draw, "grid-stride", name, declaration, parameters, body)


def block_sum(rng: random.Random) -> KernelText:
    """A sum, maximum or minimum for each block by a tree in shared memory."""
    draw = Draw(rng)
    ctype = draw.ctype(integers=False)
    n, blocks, t = draw.name.length(), "blocks", rng.choice(["t", "tid", "lane_id", "th"])
    x, out, shared, own = draw.name.array(), draw.name.array(), rng.choice(["shared", "sh", "cache", "sdata"]), "own"
    i, k = draw.name.index(), draw.name.loop()
    if i == t:
        t = "thread"
    block = rng.choice([64, 128, 256])
    end = "f" if ctype == "float" else ""
    kind = rng.choice(["sum", "sum", "sum", "max", "min", "squares"])
    zero = f"0.0{end}"
    start = {"max": f"-1e30{end}", "min": f"1e30{end}"}.get(kind, zero)

    def join(one: str, other: str) -> str:
        return f"f{kind}{end}({one}, {other})" if kind in ("max", "min") else f"{one} + {other}"

    term = f"{x}[{i}] * {x}[{i}]" if kind == "squares" else f"{x}[{i}]"
    combine = f"{shared}[{t}] = {join(f'{shared}[{t}]', f'{shared}[{t} + {k}]')};"
    trees = [
        [f"for (int {k} = blockDim.x / 2; {k} > 0; {k} /= 2) {{", f"if ({t} < {k}) {combine}", "__syncthreads();", "}"],
        [f"for (int {k} = blockDim.x >> 1; {k} > 0; {k} >>= 1) {{", f"if ({t} < {k}) {{", combine, "}",
         "__syncthreads();", "}"],
        [f"for (int {k} = 1; {k} < blockDim.x; {k} *= 2) {{", f"if ({t} % (2 * {k}) == 0) {{", combine, "}",
         "__syncthreads();", "}"],
    ]  # fmt: skip
    size = f"extern __shared__ {ctype} {shared}[];"
    dynamic = rng.random() < 0.6
    if not dynamic:
        size = f"__shared__ {ctype} {shared}[{block}];"
    body = [
        size,
        f"int {t} = threadIdx.x;",
        f"{ctype} {own} = {start};",
        f"for (int {i} = blockIdx.x * blockDim.x + {t}; {i} < {n}; {i} += gridDim.x * blockDim.x) {{",
        f"{own} = {join(own, term)};",
        "}",
        f"{shared}[{t}] = {own};",
        "__syncthreads();",
        *rng.choice(trees),
        f"if ({t} == 0) {out}[blockIdx.x] = {shared}[0];",
    ]
    width = 4 if ctype == "float" else 8
    launch = f"block = {block}, grid = {blocks}" + (f", shared = {width} * {block}" if dynamic else "")
    declaration = [
        f"{n} = {draw.line_size()}, {blocks} = {rng.choice([132, 256, 264, 512])}",
        f"{x}[{n}]: {draw.content(ctype)}, {out}[{blocks}]",
        launch,
    ]
    parameters = [f"const {ctype}* {x}", f"{ctype}* {out}", f"int {n}", f"int {blocks}"]
    name = draw.name.kernel("block_sum", "reduce", "partial_sums", "reduce_blocks")
    return kernel_text(draw, f"block-{kind}", name, declaration, parameters, body)


def histogram(rng: random.Random) -> KernelText:
    """Counts by atomics into global memory."""
    draw = Draw(rng)
    n, i, x, h = draw.name.length(), draw.name.index(), draw.name.array(), rng.choice(["hist", "bins_out", "histo"])
    bins = rng.choice([16, 32, 64, 100, 128, 256, 512])
    ctype = rng.choice(["int", "unsigned char", "unsigned short", "int"])
    high = min(bins, 256) if ctype == "unsigned char" else bins
    counter = rng.choice(["int", "unsigned int"])
    one = "1u" if counter == "unsigned int" else "1"
    place = f"&{h}[{x}[{i}]]"
    body = [rng.choice([f"atomicAdd({place}, {one});", f"atomicAdd({h} + {x}[{i}], {one});"])]
    if rng.random() < 0.3:
        limit = rng.randrange(1, high)
        body = [f"if ({x}[{i}] >= {limit}) {{", *body, "}"]
    block = draw.line_block()
    declaration = [
        f"{n} = {draw.line_size()}, {x}[{n}]: uniform(0, {high}), {h}[{bins}]: zeros",
        f"block = {block}, grid = ceil_div({n}, {block})",
    ]
    parameters = [f"const {ctype}* {x}", f"{counter}* {h}", f"int {n}"]
    name = draw.name.kernel("histogram", "count_bins", "hist")
    whole = [coordinate(draw.style, i), *guarded(draw.style, [(i, n)], body)]
    return kernel_text(draw, "histogram", name, declaration, parameters, whole)


def interleaved(rng: random.Random) -> KernelText:
    """Structures of arrays read with a stride: components of points next to each other."""
    draw = Draw(rng)
    ctype = draw.ctype(integers=False)
    n, i, points, out, k = (
        draw.name.length(), draw.name.index(), draw.name.array(), draw.name.array(), draw.name.loop()
    )  # fmt: skip
    dims = rng.choice([2, 3, 4, 8])
    end = "f" if ctype == "float" else ""
    acc = draw.name.sum()
    term = f"{points}[{i} * {dims} + {k}]"
    body = [
        f"{ctype} {acc} = 0.0{end};",
        *loop(draw.style, k, str(dims), [f"{acc} += {rng.choice([term, f'{term} * {term}'])};"]),
        f"{out}[{i}] = {rng.choice([acc, f'sqrt{end}(fabs{end}({acc}))', f'{acc} * {literal(rng, ctype)}'])};",
    ]
    block = draw.line_block()
    declaration = [
        f"{n} = {rng.choice([1 << 18, 1 << 20, 300_000])}, {points}[{dims} * {n}]: {draw.content(ctype)}, {out}[{n}]",
        f"block = {block}, grid = ceil_div({n}, {block})",
    ]
    parameters = [f"const {ctype}* {points}", f"{ctype}* {out}", f"int {n}"]
    name = draw.name.kernel("norms", "lengths", "point_sums")
    whole = [coordinate(draw.style, i), *guarded(draw.style, [(i, n)], body)]
    return kernel_text(draw, "interleaved", name, declaration, parameters, whole)
