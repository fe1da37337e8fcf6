"""Recipes that go through indices: histograms, degrees, sparse products, searches, sorting by rank."""

from __future__ import annotations

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
from optiml_core.synthesis.reading import Reading, is_array_name
from optiml_core.synthesis.records import Array, Draft, Specification

Names = Mapping[str, int | float]
ZEROED = "the launcher sets the result to zero first"


def _extent(text: str, names: Names) -> int:
    return int(text) if text.isdigit() else int(names[text])


def histogram(reading: Reading) -> Draft | None:
    """Counts of keys, of bytes, or of floats in equal intervals of [0, 1)."""
    intervals = reading.search(r"fall into each of (?P<bins>\w+) equal (?:intervals|bins)")
    keys = reading.search(r"how often each (?:key|value|number) from 0 to (?P<bins>\w+) - 1 occurs")
    bins = reading.search(r"histogram (?:with|of) (?P<bins>\w+) bins")
    if intervals is None and keys is None and not reading.says("histogram"):
        return None
    if bins is None and keys is None and intervals is None:
        raise Missing("How many bins has the histogram (`with 256 bins`)?")
    count = next(one["bins"] for one in (intervals, keys, bins) if one is not None)
    target = reading.output
    if target is None:
        named = [n for n, d in reading.declared.items() if d.type == "int" and d.shape is None]
        target = named[0] if len(named) == 1 else "counts"
        reading.outputs.append(target)
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    shape = vector_shape(reading, source)
    if ctype in ("float", "double"):
        unit = reading.says(r"in \[ 0 , 1 \)", r"between 0 and 1", r"from 0 to 1")
        if not unit:
            raise Missing(f"In which range lie the numbers of `{source}` (for example [0, 1))?")
        find = f"min((int)({source}[i] * {count}), {count} - 1)"
        content, rule = "uniform(0, 1)", f"`{source}` lies in [0, 1)"
    elif ctype == "unsigned char":
        if not count.isdigit() or int(count) < 256:
            raise Missing("Bytes need 256 bins; which bin should larger values go to?")
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


def degrees(reading: Reading) -> Draft | None:
    """How many edges leave or reach every node."""
    if not reading.says(r"count the (?:out - |in - )?degrees?"):
        return None
    ends = reading.search(r"(?P<e>\w+) (?P<verb>leaves|reaches|enters) node (?P<name>\w+) \[ (?P=e) \]")
    if ends is None or (reading.says("in - degree") and ends["verb"] == "leaves"):
        raise Missing("Which array holds the node at the end that is counted (`edge e leaves node source[e]`)?")
    graph = reading.search(r"(?P<n>\w+) nodes and (?P<m>\w+) edges")
    if graph is None:
        raise Missing("How many nodes and edges has the graph (`n nodes and m edges`)?")
    nodes, edges, source = graph["n"], graph["m"], ends["name"]
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


def sparse_rows(reading: Reading) -> Draft | None:
    """A sparse matrix in CSR form times a dense vector."""
    if not reading.says("csr"):
        return None
    integers = [m for m in reading.declared.values() if m.type == "int" and m.shape is None]
    floats = [m for m in reading.declared.values() if m.type in ("float", "double") and m.shape is None]
    dense = reading.search(r"vector (?P<x>\w+) of length (?P<cols>\w+)")
    rows = reading.search(r"(?P<rows>\w+) rows")
    offsets = next((m.name for m in integers if "off" in m.name or "ptr" in m.name or "start" in m.name), None)
    columns = next((m.name for m in integers if "col" in m.name or "ind" in m.name), None)
    values = next((m.name for m in floats if m.name not in reading.outputs), None)
    if dense is None or rows is None or offsets is None or columns is None or values is None:
        raise Missing(
            "Name the CSR arrays, the rows and the vector: `int row_offsets, int column_indices, float values`?"
        )
    x, cols, target, count = dense["x"], dense["cols"], output_of(reading, "y"), rows["rows"]
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


def entry_sums(reading: Reading) -> Draft | None:
    """Values added up by the row that each entry names."""
    found = reading.search(r"(?P<values>\w+) \[ (?P<e>\w+) \] in row (?P<row>\w+) \[ (?P=e) \]")
    total = reading.search(r"(?:add up|sum) the (?:entries|values) of each of the (?P<rows>\w+) rows")
    stored = reading.search(r"(?P<nnz>\w+) entries")
    if found is None or total is None or stored is None:
        return None
    values, row, rows, entries = found["values"], found["row"], total["rows"], stored["nnz"]
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


def lower_bound(reading: Reading) -> Draft | None:
    """For every query the number of smaller elements of a sorted table."""
    found = reading.search(
        r"number of elements (?:of|in) (?P<table>\w+) that are (?P<how>smaller|less)(?P<equal> or equal)?"
    )
    if found is None or not reading.says("sorted"):
        return None
    table = found["table"]
    queries = [name for name in reading.inputs() if name != table]
    if len(queries) != 1 or not is_array_name(table):
        raise Missing("Which array holds the queries, and how many are there (`m floats in queries`)?")
    query = queries[0]
    n, m = vector_shape(reading, table)[0], vector_shape(reading, query)[0]
    operator = "<=" if found["equal"] else "<"
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
    side = "right" if found["equal"] else "left"

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


def rank_sort(reading: Reading) -> Draft | None:
    """Sorting by rank: every element counts those before it; n*n steps, for short arrays."""
    if not reading.search(r"sort the .*"):
        return None
    descending = reading.says("descending", "decreasing")
    if not descending and not reading.says("ascending", "increasing"):
        raise Missing("In ascending or in descending order?")
    source = only_input(reading)
    n, ctype = vector_shape(reading, source)[0], ctype_of(reading, source)
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
