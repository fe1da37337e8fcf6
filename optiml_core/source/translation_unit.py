"""What is in one file: the records that only this room makes, and the unit that holds them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from attrs import define, field, frozen
from tree_sitter import Node, Tree

from optiml_core.records import Kernel, LaunchSite, Parameter, SourceRange, TemplateParameter
from optiml_core.source.blanking import Blanked
from optiml_core.source.lexical import LexicalScan
from optiml_core.source.source_file import SourceFile
from optiml_core.source.token_scan import KernelTokens


@frozen
class Include:
    """An ``#include``: ``name`` as written between the quotes or angle brackets."""

    name: str
    quoted: bool
    range: SourceRange


@frozen
class Macro:
    """A ``#define``. ``parameters`` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    range: SourceRange


@frozen
class DeviceFunction:
    """A ``__device__`` function (also ``__host__ __device__``) that is defined in the file."""

    name: str
    qualified: str
    range: SourceRange
    body_range: SourceRange
    return_type: str
    parameters: tuple[Parameter, ...]
    template_parameters: tuple[TemplateParameter, ...] = ()
    is_host_too: bool = False


@frozen
class GlobalVariable:
    """A variable at file scope in a device memory space. ``extents`` are texts, one per array dimension."""

    name: str
    qualified: str
    space: str  # "constant", "device", "shared" or "managed"
    type: str
    extents: tuple[str, ...]
    initialiser: str | None
    range: SourceRange


@frozen
class TypeAlias:
    """``typedef target name;`` or ``using name = target;``"""

    name: str
    target: str
    range: SourceRange


@frozen
class StructMember:
    """One member as written: its type's text, its name, the texts of its array extents."""

    name: str
    type: str
    extents: tuple[str, ...] = ()


@frozen
class StructDefinition:
    """A ``struct``, ``class`` or ``union`` with a body. Layouts come from ``exact_types``."""

    name: str
    keyword: str
    members: tuple[StructMember, ...]
    range: SourceRange
    template_parameters: tuple[TemplateParameter, ...] = ()


@define(frozen=True, slots=False, eq=False)
class TranslationUnit:
    """One parsed file. Everything beyond kernels and launch sites is read when first asked for.

    ``tree`` has the file's byte offsets, but was parsed from ``blanked.text``: take texts from
    ``source.data``, never from a node. ``node`` may come from a second tree of one kernel alone,
    where the file's tree has an error in it.
    """

    source: SourceFile
    tree: Tree = field(repr=False)
    kernels: tuple[Kernel, ...]
    launch_sites: tuple[LaunchSite, ...]
    scan: LexicalScan = field(repr=False)
    blanked: Blanked = field(repr=False)
    # The data with comments blanked: what texts of declarations are taken from.
    plain: bytes = field(repr=False)
    tokens: tuple[KernelTokens, ...] = field(repr=False, default=())
    # By start byte of the kernel's range, filled when asked for. A node keeps its tree alive.
    nodes: dict[int, Node | None] = field(repr=False, factory=dict)
    # What was derived from the unit (loops, accesses ...), so that it is computed once. See `remembered`.
    memory: dict[Hashable, object] = field(repr=False, factory=dict)

    def kernel(self, qualified: str) -> Kernel | None:
        """The kernel of that qualified name; also by its plain name if only one kernel has it."""
        exact = [k for k in self.kernels if k.qualified == qualified]
        if exact:
            return exact[0]
        plain = [k for k in self.kernels if k.name == qualified]
        return plain[0] if len(plain) == 1 else None

    def kernel_at(self, line: int) -> Kernel | None:
        """The kernel whose definition covers a line (from 1)."""
        for kernel in self.kernels:
            if kernel.range.start_line <= line <= kernel.range.end_line:
                return kernel
        return None

    def node(self, kernel: Kernel) -> Node | None:
        """The ``function_definition`` node of a kernel; None if no tree has one (see ``has_syntax_error``)."""
        start = kernel.range.start_byte
        if start not in self.nodes:
            from optiml_core.source.kernel_reading import kernel_node

            found = next((t for t in self.tokens if t.start == start), None)
            self.nodes[start] = kernel_node(self.tree, found, self.blanked, self.scan) if found is not None else None
        return self.nodes[start]

    def launches_of(self, kernel: Kernel) -> tuple[LaunchSite, ...]:
        """The launch sites in this file that name the kernel, with or without its namespaces."""
        return tuple(s for s in self.launch_sites if names_kernel(s.kernel, kernel))

    @cached_property
    def includes(self) -> tuple[Include, ...]:
        from optiml_core.source.file_scope import read_includes

        return read_includes(self)

    @cached_property
    def macros(self) -> tuple[Macro, ...]:
        return tuple(
            Macro(m.name, m.parameters, m.body, self.source.range(m.start, m.end)) for m in self.blanked.macros
        )

    @cached_property
    def device_functions(self) -> tuple[DeviceFunction, ...]:
        from optiml_core.source.file_scope import read_device_functions

        return read_device_functions(self)

    @cached_property
    def globals(self) -> tuple[GlobalVariable, ...]:
        from optiml_core.source.file_scope import read_globals

        return read_globals(self)

    @cached_property
    def structs(self) -> tuple[StructDefinition, ...]:
        from optiml_core.source.file_scope import read_structs

        return read_structs(self)

    @cached_property
    def type_aliases(self) -> tuple[TypeAlias, ...]:
        from optiml_core.source.file_scope import read_type_aliases

        return read_type_aliases(self)


def names_kernel(written: str, kernel: Kernel) -> bool:
    """Whether the name written at a launch (without template arguments) means the kernel."""
    written = written.replace(" ", "").removeprefix("::")
    plain = kernel.qualified.split("<", 1)[0]
    return written == plain or plain.endswith("::" + written) or written.endswith("::" + plain)
