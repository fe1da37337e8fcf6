import pytest

from optiml_core.source import SourceFile
from optiml_core.toolchain import refuse_new_includes

ORIGINAL = '#include <cstdio>\n#  include "a.h" // ours\n#if __has_include(<cuda_fp16.h>)\n#endif\n'


def verdict(candidate: str) -> int | None:
    failure = refuse_new_includes(SourceFile("a.cu", ORIGINAL.encode()), SourceFile("a.cu", candidate.encode()))
    return None if failure is None else failure.line


@pytest.mark.parametrize(
    "candidate",
    [
        ORIGINAL,
        "",
        '#include "a.h"\nint a;\n#include <cstdio>\n',
        "// #include <vector>\n",
        'const char* s = "#include <x>";\n',
    ],
)
def test_what_the_original_includes_may_stay_move_and_go(candidate: str) -> None:
    assert verdict(candidate) is None


@pytest.mark.parametrize(
    "line",
    [
        "#include <vector>",
        '#include "/etc/passwd"',
        "#include <a.h>",
        '#include "../a.h"',
        "#include MACRO",
        '#embed "a.h"',
        "#include_next <cstdio>",
        '#import "a.h"',
        "#if __has_include(<cuda_bf16.h>)\n#endif",
        '#define P __has_embed("x")',
        '#inc\\\nlude "b.h"\n#include <cstdlib>',
        '  #  /* */ include "b.h"',
    ],
)
def test_nothing_may_be_added(line: str) -> None:
    assert verdict(f"int first;\n{line}\n{ORIGINAL}") is not None
