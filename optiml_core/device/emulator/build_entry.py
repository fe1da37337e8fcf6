"""The entry point appended to a candidate: it calls the kernel with arguments read from an array of addresses.

The parameters' types are deduced by the compiler from the kernel itself, so typedefs, structs and
templates need no text of ours. A constant table with the size and sort of each parameter goes into
the object, from which :func:`parameter_rows` reads it.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from optiml_core.device.emulator.build_elf import Elf, bytes_of

ENTRY_SYMBOL = "optiml_entry"
TABLE_SYMBOL = "optiml_entry_parameters"

OTHER, BOOLEAN, SIGNED, UNSIGNED, FLOATING, POINTER = 0, 1, 2, 3, 4, 5

# Appended after preprocessing, so that no macro of the candidate can reach it.
_ENTRY = """
namespace optiml_entry_types {
struct row { unsigned size, alignment, sort, pointee_size, pointee_sort; };
template <class T> struct bare { typedef T type; };
template <class T> struct bare<const T> { typedef T type; };
template <class T> struct bare<volatile T> { typedef T type; };
template <class T> struct bare<const volatile T> { typedef T type; };
template <class T> struct bare<T&> { typedef typename bare<T>::type type; };
template <class T> struct bare<T&&> { typedef typename bare<T>::type type; };
template <class T> struct sort_of { static constexpr unsigned value = __is_enum(T) ? 2 : 0; };
template <class T> struct sort_of<T*> { static constexpr unsigned value = 5; };
#define SORT(T, n) template <> struct sort_of<T> { static constexpr unsigned value = n; };
template <class T, class = void> struct size_of { static constexpr unsigned value = 0; };
template <class T> struct size_of<T, decltype((void)sizeof(T))> { static constexpr unsigned value = sizeof(T); };
template <> struct size_of<void, void> { static constexpr unsigned value = 0; };
template <class T> struct row_of {
  static constexpr row value = {sizeof(T), alignof(T), sort_of<T>::value, 0, 0};
};
template <class T> struct row_of<T*> {
  typedef typename bare<T>::type target;
  static constexpr row value = {sizeof(T*), alignof(T*), 5, size_of<target>::value, sort_of<target>::value};
};
template <int... I> struct numbers {};
template <class F, F* kernel> struct caller;
template <class... P, void (*kernel)(P...)> struct caller<void(P...), kernel> {
  struct table { unsigned count; row rows[sizeof...(P) + 1]; };
  static constexpr table parameters = {sizeof...(P), {row_of<typename bare<P>::type>::value..., row{0, 0, 0, 0, 0}}};
  template <int... I> __attribute__((no_sanitize_thread)) static void call(void** a, numbers<I...>) {
    kernel(*(typename bare<P>::type*)a[I]...);
  }
  __attribute__((no_sanitize_thread)) static void call(void** a) {
    call(a, numbers<__integer_pack(sizeof...(P))...>());
  }
};
template <auto kernel> struct of;
template <class... P, void (*kernel)(P...)> struct of<kernel> : caller<void(P...), kernel> {};
}
extern "C" __attribute__((visibility("default"), used)) constexpr
optiml_entry_types::of<&KERNEL>::table optiml_entry_parameters =
    optiml_entry_types::of<&KERNEL>::parameters;
extern "C" __attribute__((no_sanitize_thread, visibility("default"), used)) void optiml_entry(void** a) {
  optiml_entry_types::of<&KERNEL>::call(a);
}
"""

_SORTS = {
    "bool": BOOLEAN, "char": SIGNED, "signed char": SIGNED, "short": SIGNED, "int": SIGNED, "long": SIGNED,
    "long long": SIGNED, "unsigned char": UNSIGNED, "unsigned short": UNSIGNED, "unsigned": UNSIGNED,
    "unsigned long": UNSIGNED, "unsigned long long": UNSIGNED, "wchar_t": SIGNED, "char16_t": UNSIGNED,
    "char32_t": UNSIGNED, "float": FLOATING, "double": FLOATING, "long double": FLOATING,
}  # fmt: skip


@frozen
class ParameterRow:
    """What the compiler says of one parameter: sizes in bytes; ``sort`` is one of the constants above."""

    size: int
    alignment: int
    sort: int
    pointee_size: int
    pointee_sort: int


def entry_text(kernel: str) -> str:
    """C++ text, free of preprocessor lines, that defines the entry point for ``kernel`` (with template arguments)."""
    lines = []
    for line in _ENTRY.splitlines():
        if line.startswith("#define SORT"):
            template = line.split(") ", 1)[1]
            lines += [
                template.replace("<T>", f"<{name}>").replace("= n;", f"= {sort};") for name, sort in _SORTS.items()
            ]
        else:
            lines.append(line.replace("KERNEL", kernel))
    return "\n".join(lines) + "\n"


def parameter_rows(data: bytes, elf: Elf) -> tuple[ParameterRow, ...]:
    """The table out of a linked object. Raises ValueError where it is missing or torn."""
    for symbol in elf.symbols:
        if symbol.name == TABLE_SYMBOL:
            numbers = np.frombuffer(bytes_of(data, elf, symbol), "<u4").tolist()
            count = numbers[0]
            if len(numbers) < 1 + 5 * count:
                raise ValueError("the table of parameters is torn")
            return tuple(ParameterRow(*numbers[1 + 5 * i : 6 + 5 * i]) for i in range(count))
    raise ValueError("the object has no table of parameters")
