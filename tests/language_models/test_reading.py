"""Reading answers: tolerant of form, strict about what is taken over."""

from __future__ import annotations

import json

import pytest

from optiml_core.language_models.reading import ReadAnswer, apply_diff, read_json_object, read_proposal
from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse

FILE = b"""#include <cstdio>
#define N 4

// optiml: n = 100, x[n], block = 32, grid = ceil_div(n, 32)
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = 2.0f * x[i];
}

int main() {
  scale<<<1, 32>>>(nullptr, 0);
}
"""
SOURCE = SourceFile("k.cu", FILE)
KERNEL = parse(SOURCE).kernels[0]
HEAD = json.dumps({"bottleneck": "memory", "idea": "use fmaf", "expected_effect": "none", "rewrites": ["unroll-loop"]})
NEW_KERNEL = """__global__ void scale(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}"""


def read(text: str) -> ReadAnswer | Failure:
    return read_proposal(text, SOURCE, KERNEL, ["unroll-loop", "pad-shared"])


GOOD = {
    "JSON and a diff": HEAD + "\n```diff\n--- a/k.cu\n+++ b/k.cu\n@@ -7,2 +7,2 @@\n   if (i < n)\n"
    "-    x[i] = 2.0f * x[i];\n+    x[i] += x[i];\n```",
    "wrong line numbers": HEAD + "\n```diff\n@@ -99,2 +99,2 @@\n   if (i < n)\n"
    "-    x[i] = 2.0f * x[i];\n+    x[i] += x[i];\n```",
    "no numbers at all": HEAD + "\n```diff\n@@ @@\n-    x[i] = 2.0f * x[i];\n+    x[i] += x[i];\n```",
    "a whole kernel": HEAD + f"\n```cuda\n{NEW_KERNEL}\n```",
    "talk around it": f"Sure! Here you go:\n```json\n{HEAD}\n```\nand\n```cpp\n{NEW_KERNEL}\n```\nHope it helps.",
    "no JSON": f"```cuda\n{NEW_KERNEL}\n```",
    "an unclosed fence": f"{HEAD}\n```cuda\n{NEW_KERNEL}",
    "the includes repeated": f"```cuda\n#include <cstdio>\n{NEW_KERNEL}\n```",
    "a device function beside it": "```cuda\n__device__ float twice(float v) { return v + v; }\n"
    + NEW_KERNEL.replace("*= 2.0f", "= twice(x[i])")
    + "\n```",
    "a new launch in the comment": "```cuda\n// optiml: n = 100, x[n], block = 64, grid = ceil_div(n, 64)\n"
    + NEW_KERNEL
    + "\n```",
}


@pytest.mark.parametrize("name", GOOD)
def test_reads(name: str) -> None:
    found = read(GOOD[name])
    assert isinstance(found, ReadAnswer), found
    assert found.data is not None
    assert found.data != FILE
    after = parse(SourceFile("k.cu", found.data))
    assert [kernel.name for kernel in after.kernels] == ["scale"]
    assert b"int main()" in found.data
    assert found.data.count(b"optiml:") == 1


def test_an_idea_alone_names_rewrites_of_the_vocabulary() -> None:
    found = read('{"idea": "unroll", "rewrites": ["unroll-loop", "launch-missiles"]}')
    assert isinstance(found, ReadAnswer)
    assert found.rewrites == ("unroll-loop",)
    assert found.data is None


BAD = {
    "nothing": "",
    "an apology": "I am sorry, I cannot help with that.",
    "wrong JSON": '{"idea": ',
    "a diff of another file": "```diff\n@@ -1 +1 @@\n-  not in the file\n+  neither\n```",
    "two kernels": f"```cuda\n{NEW_KERNEL}\n__global__ void other() {{}}\n```",
    "another kernel": "```cuda\n__global__ void other(float* x, int n) {}\n```",
    "a changed parameter": "```cuda\n" + NEW_KERNEL.replace("float* x", "double* x") + "\n```",
    "a further parameter": "```cuda\n" + NEW_KERNEL.replace("int n", "int n, int m") + "\n```",
    "a new include": "```diff\n@@ -1 +1,2 @@\n #include <cstdio>\n+#include </etc/passwd>\n```",
    "a changed main": "```diff\n@@ -1 +1 @@\n int main() {\n+  system(\"true\");\n```",
    "a changed launch": "```diff\n@@ -1 +1 @@\n-  scale<<<1, 32>>>(nullptr, 0);\n+  scale<<<0, 32>>>(nullptr, 0);\n```",
    "a host function": "```diff\n@@ -1 +1 @@\n int main() {\n-  scale<<<1, 32>>>(nullptr, 0);\n+  std::exit(0);\n```",
    "a stream": "```diff\n@@ -1 +1 @@\n #define N 4\n+cudaStream_t stream;\n```",
    "a megabyte": "x" * (2 << 20),
    "deeply nested": "[" * 100000 + "{" * 100000,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    found = read(BAD[name])
    assert isinstance(found, Failure), found
    assert found.message


def test_line_endings_stay() -> None:
    crlf = FILE.replace(b"\n", b"\r\n")
    changed = apply_diff(crlf, "@@ -8 +8 @@\n-    x[i] = 2.0f * x[i];\n+    x[i] += x[i];\n")
    assert isinstance(changed, bytes)
    assert changed == crlf.replace(b"2.0f * x[i]", b"2.0f * x[i]").replace(b"x[i] = 2.0f * x[i]", b"x[i] += x[i]")


@pytest.mark.parametrize("text", ["{", "}{", '{"a": {"b": 1}}', 'x {"a"} {"b": 2}', "[1]", "{" * 5000])
def test_json_never_raises(text: str) -> None:
    assert isinstance(read_json_object(text), dict)
