"""Recipes that go through indices: histograms, degrees, sparse products, searches, sorting by rank."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    ctype_of,
    guarded_index,
    line_grid,
    literal,
    only_input,
    output_of,
    sizes_of,
    vector_shape,
)
from optiml_core.synthesis.formula_recipes import draft_of
from optiml_core.synthesis.formulas import Formula, Load, Name
from optiml_core.synthesis.grammar import TYPE
from optiml_core.synthesis.reading import Reading, extents, noun, type_named
from optiml_core.synthesis.records import Array, Draft, Specification

Names = Mapping[str, int | float]
ZEROED = "the launcher sets the result to zero first"


def _extent(text: str, names: Names) -> int:
    return int(text) if text.isdigit() else int(names[text])


def histogram(reading: Reading) -> Draft:
    """Counts of keys, of bytes, or of floats in equal intervals of [0, 1)."""
    found = [
        one for name in ("histogram", "equal bins", "key counts", "with bins") if (one := reading.op(name)) is not None
    ]
    counts = {one.groups[key] for one in found for key in ("bins", "bins2") if one.groups.get(key)}
    if len(counts) != 1:
        raise Missing("How many bins has the histogram (`with 256 bins`)?")
    (count,) = counts
    is_keyed = "key counts" in reading.operations
    target = reading.output
    if target is None:
        named = [n for n, d in reading.declared.items() if d.type == "int" and d.shape is None]
        target = named[0] if len(named) == 1 else "counts"
        reading.outputs.append(target)
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    shape = vector_shape(reading, source)
    if ctype in ("float", "double"):
        if is_keyed:
            raise Missing(f"`{source}` holds floats; are they keys?")
        if reading.mark("unit range") is None:
            raise Missing(f"In which range lie the numbers of `{source}` (for example [0, 1))?")
        find = f"min((int)({source}[i] * {count}), {count} - 1)"
        content, rule = "uniform(0, 1)", f"`{source}` lies in [0, 1)"
    elif ctype == "unsigned char":
        if count != "256":
            raise Missing("Bytes have 256 values; which bins should they go to?")
        find, content, rule = f"{source}[i]", "uniform(0, 256)", "bytes from 0 to 255"
    else:
        find, content, rule = f"{source}[i]", f"index({count})", f"keys lie from 0 to {count} - 1"

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        number = _extent(count, names)
        values = arrays[source]
        if ctype == "float":
            values = (values.astype(np.float32) * np.float32(number)).astype(np.int64)
        elif ctype == "double":
            values = (values * number).astype(np.int64)
        return {target: np.bincount(np.minimum(values, number - 1), minlength=number)}

    body = guarded_index(shape[0]) + f"  atomicAdd(&{target}[{find}], 1);\n"
    parameters = (
        array(reading, source, shape, "input", ctype, content),
        array(reading, target, (count,), "zeroed output", "int"),
        *sizes_of([shape, (count,)]),
    )  # fmt: skip
    specification = Specification(
        "histogram", "histogram", parameters, f"{target} = bincount({find.replace('[i]', '')}, {count})",
        (rule, ZEROED, INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(shape[0]), (256,), compute)


def degrees(reading: Reading) -> Draft:
    """How many edges leave or reach every node."""
    asked = reading.op("degrees")
    ends, graph = reading.mark("leaves"), reading.mark("graph")
    assert asked is not None
    which = (asked.groups.get("which") or asked.groups.get("which2") or "").lower()
    if ends is None or (ends.groups["verb"].lower() == "leaves") != (which == "out"):
        raise Missing("Which array holds the node at the end that is counted (`edge e leaves node source[e]`)?")
    if graph is None:
        raise Missing("How many nodes and edges has the graph (`n nodes and m edges`)?")
    if asked.groups.get("name"):
        reading.add(asked.groups["name"], type_named(asked.groups.get("type", "")), None)
        reading.outputs.append(asked.groups["name"])
    nodes, edges, source = graph.groups["nodes"], graph.groups["edges"], ends.groups["ends"]
    target = output_of(reading, "degree")

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: np.bincount(arrays[source], minlength=int(names[nodes]))}

    body = guarded_index(edges) + f"  atomicAdd(&{target}[{source}[i]], 1);\n"
    parameters = (
        array(reading, source, (edges,), "input", "int", f"index({nodes})"),
        array(reading, target, (nodes,), "zeroed output", "int"), *sizes_of([(nodes, edges)]),
    )  # fmt: skip
    specification = Specification(
        "count_degrees", "counting", parameters, f"{target} = bincount({source}, minlength={nodes})",
        (f"nodes are numbered from 0 to {nodes} - 1", ZEROED, INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(edges), (256,), compute)


def sparse_rows(reading: Reading) -> Draft:
    """A sparse matrix in CSR form times a dense vector."""
    found = reading.op("spmv")
    assert found is not None
    groups = {key.rstrip("2"): value for key, value in found.groups.items() if value}
    listed = [
        re.fullmatch(rf"(?P<type>{TYPE}) (?P<name>\w+)", one.strip(), re.IGNORECASE)
        for one in groups["lists"].split(",")
    ]
    arrays_named = {one["name"]: type_named(one["type"]) for one in listed if one is not None}
    integers = [name for name, ctype in arrays_named.items() if ctype == "int"]
    floats = [name for name, ctype in arrays_named.items() if ctype in ("float", "double")]
    offsets = next((name for name in integers if "off" in name or "ptr" in name or "start" in name), None)
    columns = next((name for name in integers if name != offsets and ("col" in name or "ind" in name)), None)
    if len(listed) != 3 or None in listed or offsets is None or columns is None or len(floats) != 1:
        raise Missing(
            "Name the CSR arrays, the rows and the vector: `int row_offsets, int column_indices, float values`?"
        )
    (values,) = floats
    x, cols, target, count = groups["x"], groups["cols"], output_of(reading, "y"), groups["rows"]
    reading.add(values, arrays_named[values], None, True)
    if type_named(groups.get("type", "")) not in (None, arrays_named[values]):
        raise Missing(f"`{values}` and `{x}` have different types; in which type are they multiplied?")
    ctype = ctype_of(reading, values)
    body = guarded_index(count, "row") + (
        f"  {ctype} sum = {literal(ctype, '0')};\n"
        f"  for (int e = {offsets}[row]; e < {offsets}[row + 1]; e++) sum += {values}[e] * {x}[{columns}[e]];\n"
        f"  {target}[row] = sum;\n"
    )

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        number = int(names[count])
        row = np.repeat(np.arange(number), np.diff(arrays[offsets]))
        used = arrays[values][: len(row)] * arrays[x][arrays[columns][: len(row)]]
        return {target: np.bincount(row, used, number)}

    entries = "nnz" if "nnz" not in (count, cols) else "entries"
    parameters = (
        array(reading, offsets, (f"{count} + 1",), "input", "int", f"offsets({entries})"),
        array(reading, columns, (entries,), "input", "int", f"index({cols})"),
        array(reading, values, (entries,), "input", ctype), array(reading, x, (cols,), "input", ctype),
        array(reading, target, (count,), "output", ctype), *sizes_of([(count,)]),
    )  # fmt: skip
    specification = Specification(
        "sparse_matrix_vector", "CSR matrix-vector product", parameters, f"{target} = csr @ {x}",
        ("a row without entries gives 0", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(count), (256,), compute, ((cols, 1024), (entries, 8192)))


def entry_sums(reading: Reading) -> Draft:
    """Values added up by the row that each entry names."""
    stored, total = reading.op("entries"), reading.op("entry sums")
    if stored is None or total is None:
        raise Missing("What should be done with the entries of the sparse matrix, and how are they stored?")
    values, row, rows, entries = (
        stored.groups["values"], stored.groups["row"], total.groups["rows"], stored.groups["nnz"])  # fmt: skip
    reading.add(values, type_named(stored.groups["type"]), (entries,), True)
    ctype, target = ctype_of(reading, values), output_of(reading)
    body = guarded_index(entries) + f"  atomicAdd(&{target}[{row}[i]], {values}[i]);\n"

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: np.bincount(arrays[row], arrays[values], int(names[rows]))}

    parameters = (
        array(reading, row, (entries,), "input", "int", f"index({rows})"), array(reading, values, (entries,)),
        array(reading, target, (rows,), "zeroed output", ctype), *sizes_of([(rows, entries)]),
    )  # fmt: skip
    specification = Specification(
        "sum_entries_by_row", "COO row sums", parameters, f"{target} = bincount({row}, {values}, {rows})",
        (ZEROED, "the order of the additions is not fixed", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(entries), (256,), compute)


def lower_bound(reading: Reading) -> Draft:
    """For every query the number of smaller elements of a sorted table."""
    found = reading.op("lower bound")
    assert found is not None
    table, query = found.groups["table"], found.groups["query"]
    if reading.mark("sorted") is None:
        raise Missing(f"Is `{table}` sorted?")
    if reading.shape_of(table) is None:
        raise Missing(f"How long is `{table}`?")
    reading.add(query, type_named(found.groups.get("type", "")), (found.groups["count"],), True)
    n, m = vector_shape(reading, table)[0], vector_shape(reading, query)[0]
    operator = "<=" if found.groups.get("equal") else "<"
    ctype, target = ctype_of(reading, table), output_of(reading, "position")
    body = (
        guarded_index(m)
        + f"""  int low = 0;
  int high = {n};
  while (low < high) {{
    const int middle = low + (high - low) / 2;
    if ({table}[middle] {operator} {query}[i]) {{
      low = middle + 1;
    }} else {{
      high = middle;
    }}
  }}
  {target}[i] = low;
"""
    )
    side = "right" if found.groups.get("equal") else "left"

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: np.searchsorted(arrays[table], arrays[query], side="right" if side == "right" else "left")}

    parameters = (
        array(reading, table, (n,), "input", ctype, "sorted"), array(reading, query, (m,)),
        array(reading, target, (m,), "output", "int"), *sizes_of([(n, m)]),
    )  # fmt: skip
    specification = Specification(
        "lower_bound", "lower bound", parameters, f"{target} = searchsorted({table}, {query}, side='{side}')",
        (f"`{table}` is sorted in ascending order", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(m), (256,), compute)


def rank_sort(reading: Reading) -> Draft:
    """Sorting by rank: every element counts those before it; n*n steps, for short arrays."""
    reading.op("sort")
    descending = reading.mark("descending") is not None
    if descending == (reading.mark("ascending") is not None):
        raise Missing("In ascending or in descending order?")
    source = only_input(reading)
    n, ctype = vector_shape(reading, source)[0], ctype_of(reading, source)
    if reading.mark("in place") is not None:
        raise Missing(f"I sort into another array; into which one, instead of in place of `{source}`?")
    target = output_of(reading)
    sign = ">" if descending else "<"
    body = (
        guarded_index(n)
        + f"""  const {ctype} mine = {source}[i];
  int rank = 0;
  for (int j = 0; j < {n}; j++) {{
    const {ctype} other = {source}[j];
    // Equal elements keep their order, so that every rank occurs once.
    if (other {sign} mine || (other == mine && j < i)) rank++;
  }}
  {target}[rank] = mine;
"""
    )

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        values = np.sort(arrays[source])
        return {target: values[::-1].copy() if descending else values}

    parameters = (array(reading, source, (n,)), array(reading, target, (n,), "output", ctype), *sizes_of([(n, "")[:1]]))
    specification = Specification(
        "rank_sort", "rank sort", parameters, f"{target} = sort({source})" + ("[::-1]" if descending else ""),
        ("no NaN", "n*n steps", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(n), (256,), compute)


def indexed_copy(reading: Reading) -> Draft:
    """``Gather x at idx into y`` and ``scatter x to y at idx``, the latter also adding."""
    gather, scatter = reading.op("gather"), reading.op("scatter")
    found = gather or scatter
    if found is None or (gather is not None and scatter is not None):
        raise Missing("Gather or scatter?")
    sources, places = noun(reading, found, "1"), noun(reading, found, "2")
    if len(sources) != 1 or len(places) != 1:
        raise Missing(f"Which array is moved, and which holds the indices, in `{found.text}`?")
    (source,), (index,) = sources, places
    if reading.declared[index].type not in (None, "int"):
        raise Missing(f"`{index}` holds the indices, so its elements must be int; are they?")
    i = Name("i")
    if gather is not None:
        target = output_of(reading)
        formula = Formula(target, (i,), Load(source, (Load(index, (i,)),)), 0, 0)
        return draft_of(reading, formula, "gather")
    target, _, brackets = found.groups["target"].partition(" ")
    shape = extents(brackets) if brackets else None
    reading.add(target, None, shape or None, True)
    if target not in reading.outputs:
        reading.outputs.append(target)
    if reading.shape_of(index) is None and reading.shape_of(source) is not None:
        reading.add(index, "int", reading.shape_of(source), True)
    formula = Formula(target, (Load(index, (i,)),), Load(source, (i,)), 0, 0, bool(found.groups.get("add")))
    return draft_of(reading, formula, "scatter")
