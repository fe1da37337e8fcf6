"""NVRTC through ctypes: enough to compile one program. Standard library only."""

from __future__ import annotations

import ctypes

LARGEST_LOG = 256 << 10
LARGEST_PTX = 1 << 20
LARGEST_CUBIN = 64 << 20

# nvrtcResult, from NVRTC's documentation.
OUT_OF_MEMORY = 1
COMPILATION = 6
NAME_EXPRESSION_NOT_VALID = 9


class Nvrtc:
    """The library, loaded. Calls go to the library's C interface as documented in NVRTC 13.0's manual."""

    def __init__(self, library: str, builtins: str | None) -> None:
        # Without the built-ins loaded first, compiling fails with "failed to open libnvrtc-builtins".
        if builtins:
            ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(library)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def error(self, result: int) -> str:
        text = self._library.nvrtcGetErrorString(result)
        return text.decode() if text else str(result)

    def compile(
        self, source: bytes, name: bytes, options: list[str], headers: list[tuple[str, str]], expressions: list[str]
    ) -> tuple[int, str, bytes, list[str], str]:
        """(result, log, cubin, lowered names in the order of the expressions, PTX); the last three empty on failure."""
        nvrtc = self._library
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * max(1, len(headers)))(*[_bytes(text) for _, text in headers])
        names = (ctypes.c_char_p * max(1, len(headers)))(*[_bytes(header) for header, _ in headers])
        result = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, len(headers), texts, names)
        if result:
            return result, self.error(result), b"", [], ""
        for expression in expressions:
            result = result or nvrtc.nvrtcAddNameExpression(program, _bytes(expression))
        if result:
            return result, self.error(result), b"", [], ""
        arguments = (ctypes.c_char_p * len(options))(*[_bytes(option) for option in options])
        result = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
        log = self._text(program, "ProgramLog")
        if result:
            return result, log or self.error(result), b"", [], ""
        lowered = []
        for expression in expressions:
            found = ctypes.c_char_p()
            result = nvrtc.nvrtcGetLoweredName(program, _bytes(expression), ctypes.byref(found))
            if result:
                return result, f"{expression}: {self.error(result)}", b"", [], ""
            lowered.append((found.value or b"").decode("utf-8", "replace"))
        size = ctypes.c_size_t()
        result = nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        if result or size.value > LARGEST_CUBIN:
            return result or COMPILATION, log + f"\nthe machine code has {size.value} bytes", b"", [], ""
        cubin = ctypes.create_string_buffer(size.value)
        result = nvrtc.nvrtcGetCUBIN(program, cubin)
        return result, log, cubin.raw, lowered, self._text(program, "PTX", LARGEST_PTX)

    def _text(self, program: ctypes.c_void_p, what: str, most: int = LARGEST_LOG) -> str:
        size = ctypes.c_size_t()
        if getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) or size.value <= 1:
            return ""
        buffer = ctypes.create_string_buffer(size.value)
        if getattr(self._library, f"nvrtcGet{what}")(program, buffer):
            return ""
        return buffer.raw[: min(size.value - 1, most)].decode("utf-8", "replace")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
