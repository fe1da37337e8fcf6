"""What the emulator cannot run, found in the text before anything is compiled, so that the answer names the line."""

from __future__ import annotations

import re

from optiml_core.device.emulator.tokens import Token, line_of
from optiml_core.records import Failure

_NAMES: dict[str, str] = {
    **dict.fromkeys(("asm", "__asm__", "__asm"), "inline assembly (PTX)"),
    **dict.fromkeys(("texture", "cudaTextureObject_t", "textureReference"), "textures"),
    **dict.fromkeys(("surface", "cudaSurfaceObject_t", "surfaceReference"), "surfaces"),
    **dict.fromkeys(("this_cluster", "cluster_group", "__cluster_dims__", "this_multi_grid"), "thread block clusters"),
    **dict.fromkeys(("malloc", "free", "new", "delete"), "memory allocated inside a kernel"),
    **dict.fromkeys(
        ("cudaGetParameterBufferV2", "cudaLaunchDeviceV2", "cudaDeviceSynchronize"), "launches from a kernel"
    ),
    **dict.fromkeys(
        ("cub", "thrust", "cutlass", "cute", "curand_init", "cufftdx", "cublasdx"), "library code of that name"
    ),
    **dict.fromkeys(("throw", "try", "catch", "typeid", "dynamic_cast"), "exceptions and run-time types"),
}
_TEXTURE_CALL = re.compile(r"(?:tex(?:1D|2D|3D|Cubemap)\w*|surf(?:1D|2D|3D|Cubemap)\w*|tex1Dfetch)")


def find_unsupported(text: str, found: list[Token]) -> Failure | None:
    """A Failure("unsupported") at the first construct of the slice that has no meaning in the emulator."""
    for index, token in enumerate(found):
        what = ""
        if token.kind == "name":
            what = _NAMES.get(token.spelling, "")
            following = found[index + 1].spelling if index + 1 < len(found) else ""
            if token.spelling in ("cub", "thrust", "cutlass", "cute") and following != "::":
                what = ""
            if token.spelling in ("texture", "surface") and following != "<":
                what = ""
            if token.spelling in ("free", "malloc", "delete", "new") and _is_member(found, index, following):
                what = ""
            if not what and _TEXTURE_CALL.fullmatch(token.spelling) and following in ("(", "<"):
                what = "textures and surfaces"
        elif token.spelling == "<<<":
            what = "launches from a kernel"
        if what:
            return Failure(
                "unsupported",
                f"the emulator cannot run {what} (`{token.spelling}`)",
                line=line_of(text, token.start),
                cure="use a CUDA device for this kernel",
            )
    return None


def _is_member(found: list[Token], index: int, following: str) -> bool:
    """A variable or member of that name, or a deleted function, is not the allocation."""
    before = found[index - 1].spelling if index else ""
    spelling = found[index].spelling
    if spelling == "delete":
        return before == "="
    if spelling == "new":
        return False
    return before in (".", "->") or following != "("
