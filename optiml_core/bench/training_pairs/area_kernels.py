"""Families of kernels over matrices: transposes, maps in the wrong order, products, reductions of rows and columns."""

from __future__ import annotations

import random

from optiml_core.bench.training_pairs.expressions import element_expression, literal
from optiml_core.bench.training_pairs.kernels import Draw, KernelText, kernel_text
from optiml_core.bench.training_pairs.style import coordinate, guarded, loop


def _area_launch(across: str, down: str, block: tuple[int, int]) -> str:
    return f"block = ({block[0]}, {block[1]}), grid = (ceil_div({across}, {block[0]}), ceil_div({down}, {block[1]}))"


def transpose(rng: random.Random) -> KernelText:
    """A transpose with a map on the way; reads or writes down a column."""
    draw = Draw(rng)
    ctype = draw.ctype()
    (rows, cols), (y, x) = draw.name.area(), draw.name.indexes()
    source, target = draw.name.array(), draw.name.array()
    value = f"{source}[{y} * {cols} + {x}]"
    if rng.random() < 0.6:
        value = element_expression(rng, [value], ctype, rng.random() < 0.2)
    sizes = draw.area_size()
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}",
        f"{source}[{rows} * {cols}]: {draw.content(ctype)}, {target}[{rows} * {cols}]",
        _area_launch(cols, rows, draw.area_block()),
    ]
    parameters = [f"const {ctype}* {source}", f"{ctype}* {target}", f"int {rows}", f"int {cols}"]
    body = [
        coordinate(draw.style, x, "x"),
        coordinate(draw.style, y, "y"),
        *guarded(draw.style, [(x, cols), (y, rows)], [f"{target}[{x} * {rows} + {y}] = {value};"]),
    ]
    name = draw.name.kernel("transpose", "flip", "swap_axes")
    return kernel_text(draw, "transpose", name, declaration, parameters, body)


def strided_map(rng: random.Random) -> KernelText:
    """A map over a matrix whose threads run down the columns."""
    draw = Draw(rng)
    ctype = draw.ctype()
    (rows, cols), (r, c) = draw.name.area(), draw.name.indexes()
    inputs = [draw.name.array() for _ in range(rng.choice([1, 2]))]
    output = draw.name.array()
    place = f"{r} * {cols} + {c}"
    terms = [f"{one}[{place}]" for one in inputs]
    vector = draw.name.array() if rng.random() < 0.4 else ""
    if vector:
        terms.append(f"{vector}[{c}]")
    sizes = draw.area_size()
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}"
        + "".join(f", {one}[{rows} * {cols}]: {draw.content(ctype)}" for one in inputs)
        + (f", {vector}[{cols}]: {draw.content(ctype)}" if vector else "")
        + f", {output}[{rows} * {cols}]",
        _area_launch(rows, cols, draw.area_block()),
    ]
    parameters = [*(f"const {ctype}* {one}" for one in inputs), *([f"const {ctype}* {vector}"] if vector else [])]
    parameters += [f"{ctype}* {output}", f"int {rows}", f"int {cols}"]
    body = [
        coordinate(draw.style, r, "x"),
        coordinate(draw.style, c, "y"),
        *guarded(
            draw.style,
            [(r, rows), (c, cols)],
            [f"{output}[{place}] = {element_expression(rng, terms, ctype, rng.random() < 0.2)};"],
        ),
    ]
    name = draw.name.kernel("matrix_map", "add_bias", "scale_matrix")
    return kernel_text(draw, "strided-map", name, declaration, parameters, body)


def matrix_product(rng: random.Random) -> KernelText:
    """A product of two matrices, one element a thread; either operand may be transposed."""
    draw = Draw(rng)
    ctype = rng.choice(["float", "float", "float", "double"])
    (rows, cols), (r, c) = draw.name.area(), draw.name.indexes()
    inner, k, acc = draw.name.inner(), draw.name.loop(), draw.name.sum()
    a, b, out = draw.name.array(), draw.name.array(), draw.name.array()
    end = "f" if ctype == "float" else ""
    left = rng.choice([f"{a}[{r} * {inner} + {k}]"] * 3 + [f"{a}[{k} * {rows} + {r}]"])
    right = rng.choice([f"{b}[{k} * {cols} + {c}]"] * 3 + [f"{b}[{c} * {inner} + {k}]"])
    scalars = [draw.name.scalar(), draw.name.scalar()] if rng.random() < 0.4 else []
    place = f"{out}[{r} * {cols} + {c}]"
    result = f"{scalars[0]} * {acc} + {scalars[1]} * {place}" if scalars else acc
    work = [f"{ctype} {acc} = 0.0{end};", *loop(draw.style, k, inner, [f"{acc} += {left} * {right};"])]
    work.append(f"{place} = {result};")
    by_rows = rng.random() < 0.4
    block = rng.choice([(16, 16), (16, 16), (32, 8), (8, 8)])
    sizes = [rng.choice([256, 512, 768, 384, 500]) for _ in range(3)]
    output = f"{out}[{rows} * {cols}]" + (f": {draw.content(ctype)}" if scalars else "")
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}, {inner} = {sizes[2]}"
        + "".join(f", {scalar} = {rng.choice(['0.5', '1.5', '2.0'])}" for scalar in scalars),
        f"{a}[{rows} * {inner}]: normal, {b}[{inner} * {cols}]: normal, {output}",
        _area_launch(rows, cols, block) if by_rows else _area_launch(cols, rows, block),
    ]
    parameters = [f"const {ctype}* {a}", f"const {ctype}* {b}", f"{ctype}* {out}"]
    parameters += [*(f"{ctype} {scalar}" for scalar in scalars), f"int {rows}", f"int {cols}", f"int {inner}"]
    axes = ("x", "y") if by_rows else ("y", "x")
    body = [
        coordinate(draw.style, r, axes[0]),
        coordinate(draw.style, c, axes[1]),
        *guarded(draw.style, [(r, rows), (c, cols)], work),
    ]
    name = draw.name.kernel("matmul", "gemm", "sgemm", "multiply", "mm")
    return kernel_text(draw, "matrix-product", name, declaration, parameters, body)


def row_reduction(rng: random.Random) -> KernelText:
    """One thread a row: sums, extremes, norms, products with a vector."""
    draw = Draw(rng)
    ctype = draw.ctype(integers=False)
    (rows, cols), r, j, acc = draw.name.area(), draw.name.index(), draw.name.loop(), draw.name.sum()
    matrix, out = draw.name.array(), draw.name.array()
    end = "f" if ctype == "float" else ""
    kind = rng.choice(["sum", "max", "min", "squares", "mean", "vector", "memory"])
    element = f"{matrix}[{r} * {cols} + {j}]"
    vector = draw.name.array() if kind in ("vector", "memory") else ""
    start = {"max": f"-1e30{end}", "min": f"1e30{end}"}.get(kind, f"0.0{end}")
    steps = {
        "max": f"{acc} = fmax{end}({acc}, {element});",
        "min": f"if ({element} < {acc}) {acc} = {element};",
        "squares": f"{acc} += {element} * {element};",
        "vector": f"{acc} += {element} * {vector}[{j}];",
        "memory": f"{out}[{r}] += {element} * {vector}[{j}];",
    }
    step = steps.get(kind, f"{acc} += {element};")
    results = {"mean": f"{acc} / {cols}", "squares": f"sqrt{end}({acc})"}
    result = results.get(kind, rng.choice([acc, f"{acc} * {literal(rng, ctype)}"]))
    if kind == "memory":
        work = [f"{out}[{r}] = 0.0{end};", *loop(draw.style, j, cols, [step])]
    else:
        work = [f"{ctype} {acc} = {start};", *loop(draw.style, j, cols, [step]), f"{out}[{r}] = {result};"]
    block = rng.choice([32, 64, 128, 256])
    sizes = (rng.choice([4096, 8192, 2048, 5000]), rng.choice([256, 512, 300, 1024]))
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}, {matrix}[{rows} * {cols}]: {draw.content(ctype)}"
        + (f", {vector}[{cols}]: {draw.content(ctype)}" if vector else "")
        + f", {out}[{rows}]",
        f"block = {block}, grid = ceil_div({rows}, {block})",
    ]
    parameters = [f"const {ctype}* {matrix}", *([f"const {ctype}* {vector}"] if vector else []), f"{ctype}* {out}"]
    parameters += [f"int {rows}", f"int {cols}"]
    whole = [coordinate(draw.style, r), *guarded(draw.style, [(r, rows)], work)]
    name = draw.name.kernel("row_sums", "row_norms", "gemv", "reduce_rows", "row_max")
    return kernel_text(draw, f"row-{kind}", name, declaration, parameters, whole)


def row_normalisation(rng: random.Random) -> KernelText:
    """Softmax, layer norm, RMS norm or division by the sum, one thread a row."""
    draw = Draw(rng)
    (rows, cols), r, j = draw.name.area(), draw.name.index(), draw.name.loop()
    source, target, acc = draw.name.array(), draw.name.array(), draw.name.sum()
    kind = rng.choice(["softmax", "softmax", "layer-norm", "rms-norm", "share"])
    x, y = f"{source}[{r} * {cols} + {j}]", f"{target}[{r} * {cols} + {j}]"
    pointers: list[str] = []
    if rng.random() < 0.4:
        row_in, row_out = "row_in", "row_out"
        pointers = [f"const float* {row_in} = {source} + {r} * {cols};", f"float* {row_out} = {target} + {r} * {cols};"]
        x, y = f"{row_in}[{j}]", f"{row_out}[{j}]"

    def each(body: list[str]) -> list[str]:
        return loop(draw.style, j, cols, body)

    if kind == "softmax":
        top = rng.choice(["largest", "top", "row_max", "maxval"])
        work = [
            f"float {top} = -INFINITY;",
            *each([rng.choice([f"{top} = fmaxf({top}, {x});", f"if ({x} > {top}) {top} = {x};"])]),
            f"float {acc} = 0.0f;",
            *each([f"{y} = expf({x} - {top});", f"{acc} += {y};"]),
            *each([rng.choice([f"{y} /= {acc};", f"{y} = {y} / {acc};"])]),
        ]
    elif kind == "layer-norm":
        mean, spread = rng.choice([("mean", "var"), ("mu", "sigma2"), ("avg", "variance")])
        work = [
            f"float {mean} = 0.0f;",
            *each([f"{mean} += {x};"]),
            f"{mean} /= {cols};",
            f"float {spread} = 0.0f;",
            *each([f"float d = {x} - {mean};", f"{spread} += d * d;"]),
            f"float {acc} = rsqrtf({spread} / {cols} + 1e-5f);",
            *each([f"{y} = ({x} - {mean}) * {acc};"]),
        ]
    elif kind == "rms-norm":
        work = [
            f"float {acc} = 0.0f;",
            *each([f"{acc} += {x} * {x};"]),
            f"float inv = rsqrtf({acc} / {cols} + 1e-6f);",
            *each([f"{y} = {x} * inv;"]),
        ]
    else:
        work = [f"float {acc} = 0.0f;", *each([f"{acc} += fabsf({x});"]), *each([f"{y} = {x} / ({acc} + 1.0f);"])]
    block = rng.choice([32, 64, 128, 256])
    sizes = (rng.choice([2048, 4096, 8192, 3000]), rng.choice([128, 256, 300, 512, 1000]))
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}, {source}[{rows} * {cols}]: normal, {target}[{rows} * {cols}]",
        f"block = {block}, grid = ceil_div({rows}, {block})",
    ]
    parameters = [f"const float* {source}", f"float* {target}", f"int {rows}", f"int {cols}"]
    whole = [coordinate(draw.style, r), *guarded(draw.style, [(r, rows)], [*pointers, *work])]
    name = draw.name.kernel(kind.replace("-", "_"), "normalize_rows", "normalise")
    return kernel_text(draw, kind, name, declaration, parameters, whole)


def column_reduction(rng: random.Random) -> KernelText:
    """One thread a column."""
    draw = Draw(rng)
    ctype = draw.ctype(integers=False)
    (rows, cols), c, i, acc = draw.name.area(), draw.name.index(), draw.name.loop(), draw.name.sum()
    matrix, out = draw.name.array(), draw.name.array()
    end = "f" if ctype == "float" else ""
    element = f"{matrix}[{i} * {cols} + {c}]"
    kind = rng.choice(["sum", "mean", "max", "squares"])
    start = f"-1e30{end}" if kind == "max" else f"0.0{end}"
    steps = {"max": f"{acc} = fmax{end}({acc}, {element});", "squares": f"{acc} += {element} * {element};"}
    work = [
        f"{ctype} {acc} = {start};",
        *loop(draw.style, i, rows, [steps.get(kind, f"{acc} += {element};")]),
        f"{out}[{c}] = {f'{acc} / {rows}' if kind == 'mean' else acc};",
    ]
    block = rng.choice([32, 64, 128, 256])
    sizes = (rng.choice([512, 1024, 2000]), rng.choice([2048, 4096, 3000]))
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}, {matrix}[{rows} * {cols}]: {draw.content(ctype)}, {out}[{cols}]",
        f"block = {block}, grid = ceil_div({cols}, {block})",
    ]
    parameters = [f"const {ctype}* {matrix}", f"{ctype}* {out}", f"int {rows}", f"int {cols}"]
    whole = [coordinate(draw.style, c), *guarded(draw.style, [(c, cols)], work)]
    name = draw.name.kernel("column_sums", "col_mean", "reduce_columns")
    return kernel_text(draw, f"column-{kind}", name, declaration, parameters, whole)


def shared_tile(rng: random.Random) -> KernelText:
    """A square tile in shared memory that is read down its columns."""
    draw = Draw(rng)
    ctype = rng.choice(["float", "float", "int"])
    n, source, target = draw.name.length(), draw.name.array(), draw.name.array()
    tile = rng.choice(["tile", "block_tile", "t_shared", "patch"])
    side = rng.choice([16, 32])
    place = f"blockIdx.x * {side * side} + threadIdx.y * {side} + threadIdx.x"
    value = element_expression(rng, [f"{tile}[threadIdx.x][threadIdx.y]"], ctype)
    body = [
        f"__shared__ {ctype} {tile}[{side}][{side}];",
        f"{tile}[threadIdx.y][threadIdx.x] = {source}[{place}];",
        "__syncthreads();",
        f"{target}[{place}] = {value};",
    ]
    declaration = [
        f"{n} = {rng.choice([1024, 2048, 4000])}",
        f"{source}[{side * side} * {n}]: {draw.content(ctype)}, {target}[{side * side} * {n}]",
        f"block = ({side}, {side}), grid = {n}",
    ]
    parameters = [f"const {ctype}* {source}", f"{ctype}* {target}", f"int {n}"]
    name = draw.name.kernel("tile_transpose", "flip_tiles", "transpose_tiles")
    return kernel_text(draw, "shared-tile", name, declaration, parameters, body)


def block_rows(rng: random.Random) -> KernelText:
    """A block a row, whose threads share the row's elements in strided loops."""
    draw = Draw(rng)
    (rows, cols), j = draw.name.area(), draw.name.loop()
    source, target, own = draw.name.array(), draw.name.array(), draw.name.sum()
    shared = rng.choice(["row_sum", "norm", "block_total"])
    block = rng.choice([64, 128, 256])

    def each(body: list[str]) -> list[str]:
        return [f"for (int {j} = threadIdx.x; {j} < {cols}; {j} += blockDim.x) {{", *body, "}"]

    body = [
        f"__shared__ float {shared};",
        f"const float* from = {source} + blockIdx.x * {cols};",
        f"float* to = {target} + blockIdx.x * {cols};",
        f"if (threadIdx.x == 0) {shared} = 0.0f;",
        "__syncthreads();",
        f"float {own} = 0.0f;",
        *each([f"{own} += {rng.choice([f'fabsf(from[{j}])', f'from[{j}] * from[{j}]'])};"]),
        f"atomicAdd(&{shared}, {own});",
        "__syncthreads();",
        *each([f"to[{j}] = from[{j}] / ({shared} + {literal(rng, 'float')});"]),
    ]
    sizes = (rng.choice([1024, 2048, 4096]), rng.choice([512, 1024, 1000, 2000]))
    declaration = [
        f"{rows} = {sizes[0]}, {cols} = {sizes[1]}, {source}[{rows} * {cols}]: normal, {target}[{rows} * {cols}]",
        f"block = {block}, grid = {rows}",
    ]
    parameters = [f"const float* {source}", f"float* {target}", f"int {rows}", f"int {cols}"]
    name = draw.name.kernel("row_scale", "normalize", "row_share")
    return kernel_text(draw, "block-rows", name, declaration, parameters, body)


def sparse_product(rng: random.Random) -> KernelText:
    """A sparse matrix in CSR form times a vector, one thread a row."""
    draw = Draw(rng)
    ctype = draw.ctype(integers=False)
    rows, r, k, acc = draw.name.length(), draw.name.index(), draw.name.loop(), draw.name.sum()
    start, column = rng.choice([("row_start", "column"), ("offsets", "indices"), ("ptr", "cols_of")])
    value, x, out = draw.name.array(), draw.name.array(), draw.name.array()
    end = "f" if ctype == "float" else ""
    work = [
        f"{ctype} {acc} = 0.0{end};",
        *loop(draw.style, k, f"{start}[{r} + 1]", [f"{acc} += {value}[{k}] * {x}[{column}[{k}]];"], f"{start}[{r}]"),
        f"{out}[{r}] = {acc};",
    ]
    block = rng.choice([64, 128, 256])
    declaration = [
        f"{rows} = {rng.choice([4096, 10000, 20000])}, entries = {rng.choice([8, 16, 24])} * {rows}",
        f"{start}[{rows} + 1]: offsets(entries), {column}[entries]: index({rows})",
        f"{value}[entries]: normal, {x}[{rows}]: normal, {out}[{rows}]",
        f"block = {block}, grid = ceil_div({rows}, {block})",
    ]
    parameters = [f"const int* {start}", f"const int* {column}", f"const {ctype}* {value}", f"const {ctype}* {x}"]
    parameters += [f"{ctype}* {out}", f"int {rows}"]
    whole = [coordinate(draw.style, r), *guarded(draw.style, [(r, rows)], work)]
    return kernel_text(draw, "sparse-product", draw.name.kernel("spmv", "csr_mv"), declaration, parameters, whole)
