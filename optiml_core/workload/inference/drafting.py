"""One launch site, evaluated: what the host code passes to the kernel there, as expressions over roots."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import frozen

from optiml_core.records import Kernel, LaunchSite
from optiml_core.source import TranslationUnit, element_type_of
from optiml_core.workload.elements import pointee_spelling
from optiml_core.workload.inference import constants, frames
from optiml_core.workload.inference.context import Context, Frame
from optiml_core.workload.inference.evaluation import evaluate
from optiml_core.workload.inference.program import Function, Program
from optiml_core.workload.inference.syntax import (
    expression_fragment,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import (
    Extents,
    HostValue,
    Listing,
    Quantity,
    Unknown,
    extents_of,
    number,
)
from optiml_core.workload.inference.variables import guessed, is_arithmetic, variable


@frozen(eq=False)
class Draft:
    """``scalars`` and ``pointers`` by parameter; ``types`` and ``values`` of the template's parameters by name."""

    site: LaunchSite | None
    unit: TranslationUnit
    frame: Frame | None
    grid: Extents | Unknown
    block: Extents | Unknown
    shared: Quantity | Unknown
    arguments: dict[str, HostValue]
    types: dict[str, str]
    values: dict[str, Quantity]
    guessed_types: dict[str, tuple[str, int]]  # why, and where


def new_context(
    program: Program,
    units: Sequence[TranslationUnit],
    guessed_size: int = 1024,
    arguments: tuple[str, ...] = (),
    distrusted: frozenset[str] = frozenset(),
) -> Context:
    """A context that knows the typedefs and structs of the units."""
    aliases: dict[str, str] = {}
    structs: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    members: dict[str, list[tuple[str, str]]] = {}
    for unit in units:
        for alias in unit.type_aliases:
            if program.dropped.holds(unit, alias.range.start_byte):
                continue
            aliases.setdefault(alias.name, alias.target)
        for match in re.finditer(r"\benum(?:\s+(?:class|struct))?\b\s*(\w*)[^{};()]*\{[^}]*\}\s*(\w*)", text_of(unit)):
            for name in filter(None, match.groups()):
                aliases.setdefault(name, "int")
        for macro in unit.macros:
            if program.macros.get(macro.name) is not macro:
                continue
            if macro.parameters is None and re.fullmatch(r"[A-Za-z_][\w: ]*\*?", macro.body.strip()):
                aliases.setdefault(macro.name, macro.body.strip())
        for struct in unit.structs:
            if struct.keyword != "union" and struct.name not in structs:
                structs[struct.name] = [(member.type, member.extents) for member in struct.members]
                members[struct.name] = [(member.type, member.name) for member in struct.members]
    return Context(program, guessed_size, arguments, distrusted, aliases=aliases, structs=structs, members=members)


def text_of(unit: TranslationUnit) -> str:
    """The file's text without comments."""
    return unit.plain.decode("utf-8", "replace")


def sites_of(units: Sequence[TranslationUnit], kernel: Kernel) -> list[tuple[TranslationUnit, LaunchSite]]:
    """The launches of a kernel by its name, else through a function pointer that is set to it."""
    direct = [(unit, site) for unit in units for site in unit.launches_of(kernel)]
    if direct:
        return direct
    found = []
    for unit in units:
        text = text_of(unit)
        names = {one.name for one in unit.kernels}
        for site in unit.launch_sites:
            plain = site.kernel.rsplit("::", 1)[-1]
            pattern = rf"\b{re.escape(plain)}\s*(?:\[[^\]]*\])?\s*=\s*&?\s*(?:\w+::)*{re.escape(kernel.name)}\b"
            if plain not in names and re.search(pattern, text):
                found.append((unit, site))
    return found


def draft(context: Context, unit: TranslationUnit, kernel: Kernel, site: LaunchSite) -> Draft:
    """Evaluates a launch site in the function around it, as its first caller calls it."""
    function = _function_around(context.program, unit, site)
    frame = frames.frame_of(context, function) if function is not None else None
    at = site.range.start_byte

    def value(text: str) -> HostValue:
        fragment = expression_fragment(text)
        line = site.range.start_line
        return evaluate(context, fragment, frame, at) if fragment else Unknown(f"`{text}` is no expression", line)

    types, values = _template_arguments(context, kernel, site, value, frame)
    arguments: dict[str, HostValue] = {}
    for parameter, text in zip(kernel.parameters, site.arguments, strict=False):
        given = value(text)
        if isinstance(given, Unknown) and not parameter.is_pointer and is_arithmetic(parameter.type):
            why = f"the value of `{parameter.name}` is not known: {given.reason}"
            line = given.line or site.range.start_line
            file = site.range.file
            given = guessed(context, f"?{parameter.name}", parameter.name, parameter.type, line, why, file)
        arguments[parameter.name] = given
    for parameter in kernel.parameters[len(site.arguments) :]:
        if parameter.default is not None:
            arguments[parameter.name] = value(parameter.default)
    _deduce_types(context, kernel, site, frame, types)
    guessed_types = _guess_types(context, unit, kernel, types, frame, site.range.start_line)
    _add_members(context, kernel, site, frame, arguments)
    shared = value(site.shared) if site.shared else number(0)
    return Draft(
        site,
        unit,
        frame,
        _extents(value(site.grid), site.range.start_line),
        _extents(value(site.block), site.range.start_line),
        shared if isinstance(shared, (Quantity, Unknown)) else Unknown("the shared memory is no number"),
        arguments,
        types,
        values,
        guessed_types,
    )


def signature_draft(context: Context, unit: TranslationUnit, kernel: Kernel) -> Draft:
    """No launch in sight: numbers are guessed, pointers and shapes are left to the kernel's own bounds."""
    line = kernel.name_range.start_line
    why = f"nothing in the file launches `{kernel.qualified}`"
    arguments: dict[str, HostValue] = {}
    for parameter in kernel.parameters:
        if not parameter.is_pointer and is_arithmetic(parameter.type):
            arguments[parameter.name] = guessed(
                context, f"?{parameter.name}", parameter.name, parameter.type, parameter.range.start_line,
                f"the value of `{parameter.name}` is not known: {why}", unit.source.path,
            )  # fmt: skip
        else:
            arguments[parameter.name] = Unknown(why)
    types: dict[str, str] = {}
    values: dict[str, Quantity] = {}
    given = kernel.instantiations[0] if kernel.instantiations else ()
    for position, one in enumerate(kernel.template_parameters):
        text = given[position] if position < len(given) else one.default
        if one.kind in ("typename", "class"):
            types[one.name] = text or "float"
        elif text is not None:
            fragment = expression_fragment(text)
            value = evaluate(context, fragment, None, 0) if fragment is not None else None
            if isinstance(value, Quantity):
                values[one.name] = value
    guessed_types = {
        one.name: (why, line)
        for position, one in enumerate(kernel.template_parameters)
        if one.name in types and position >= len(given) and one.default is None
    }
    unknown = Unknown(why, line)
    return Draft(None, unit, None, unknown, unknown, number(0), arguments, types, values, guessed_types)


def _function_around(program: Program, unit: TranslationUnit, site: LaunchSite) -> Function | None:
    at = site.range.start_byte
    for function in program.all_functions():
        if function.unit is unit and function.node.start_byte <= at < function.node.end_byte:
            return function
    return None


def _extents(value: HostValue, line: int) -> Extents | Unknown:
    if isinstance(value, (Extents, Unknown)):
        return value
    if isinstance(value, Quantity):
        return extents_of([value])
    axes = list(value.values) if isinstance(value, Listing) else []
    numbers = [one for one in axes if isinstance(one, Quantity)]
    if numbers and len(numbers) == len(axes):
        return extents_of(numbers)
    return Unknown("the launch's shape is not known", line)


def _template_arguments(
    context: Context, kernel: Kernel, site: LaunchSite, value: Callable[[str], HostValue], frame: Frame | None
) -> tuple[dict[str, str], dict[str, Quantity]]:
    types: dict[str, str] = {}
    values: dict[str, Quantity] = {}
    for parameter, text in zip(kernel.template_parameters, site.template_arguments, strict=False):
        if parameter.kind in ("typename", "class"):
            types[parameter.name] = _resolved_type(context, text, frame)
        else:
            given = value(text)
            if isinstance(given, Quantity):
                values[parameter.name] = given
    for parameter in kernel.template_parameters[len(site.template_arguments) :]:
        if parameter.default is None:
            continue
        if parameter.kind in ("typename", "class"):
            types[parameter.name] = parameter.default
        else:
            given = value(parameter.default)
            if isinstance(given, Quantity):
                values[parameter.name] = given
    return types, values


def _resolved_type(context: Context, text: str, frame: Frame | None) -> str:
    """A type argument through the template arguments of the functions around it and the file's typedefs."""
    spelling = text.strip()
    for _ in range(8):
        if frame is not None and spelling in frame.template_arguments:
            given = frame.template_arguments[spelling]
            spelling, frame = given.fragment.text, given.frame
        elif spelling in context.aliases and element_type_of(spelling) is None:
            spelling = context.aliases[spelling]
        else:
            break
    return spelling


def _deduce_types(
    context: Context, kernel: Kernel, site: LaunchSite, frame: Frame | None, types: dict[str, str]
) -> None:
    """Type parameters that the call leaves to deduction: from the declared type of an argument."""
    for parameter, text in zip(kernel.parameters, site.arguments, strict=False):
        spelling = pointee_spelling(parameter.type)
        names = {one.name for one in kernel.template_parameters if one.kind in ("typename", "class")}
        if spelling not in names or spelling in types:
            continue
        fragment = expression_fragment(text)
        path = path_of(without_casts(fragment)) if fragment else None
        declared = frames.declared_type(context, path, frame) if path else None
        if declared is not None:
            types[spelling] = _resolved_type(context, declared, frame)
        elif fragment is not None and fragment.node.type == "number_literal":
            is_float = "." in text or "f" in text
            types[spelling] = ("float" if text.endswith("f") else "double") if is_float else "int"


def _guess_types(
    context: Context, unit: TranslationUnit, kernel: Kernel, types: dict[str, str], frame: Frame | None, line: int
) -> dict[str, tuple[str, int]]:
    """Gives the type parameters that are still open a type: the kernel's own, and those of a class or function
    around its launch, whose instantiation is somewhere else."""
    guessed: dict[str, tuple[str, int]] = {}
    own = {one.name for one in kernel.template_parameters if one.kind in ("typename", "class")}
    for name in own - set(types):
        types[name] = "float"
        guessed[name] = ("no launch gives it", line)
    text = text_of(unit)
    for name, spelling in list(types.items()):
        is_known = element_type_of(spelling) is not None or spelling in context.structs
        if name in own and not is_known and re.search(rf"\b(?:typename|class)\s+{re.escape(spelling)}\s*[,>=]", text):
            instantiated = re.search(r"\btemplate\s+(?:class|struct|void)\s+[\w:]+\s*<\s*([\w ]+?)\s*[,>]", text)
            types[name] = instantiated[1] if instantiated else "float"
            if not instantiated:
                guessed[name] = (f"`{spelling}` is a template parameter of the code around the launch", line)
    return guessed


def _add_members(
    context: Context, kernel: Kernel, site: LaunchSite, frame: Frame | None, arguments: dict[str, HostValue]
) -> None:
    """The members of structs and vectors that are passed by value, as arguments named `d.n`."""
    for parameter, text in zip(kernel.parameters, site.arguments, strict=False):
        given = arguments.get(parameter.name)
        spelling = pointee_spelling(parameter.type)
        lanes = parameter.element.lanes if parameter.element is not None else 1
        if parameter.is_pointer or (lanes == 1 and spelling not in context.structs):
            continue
        names = list("xyzw"[:lanes]) if lanes > 1 else [name for _, name in context.members.get(spelling, ())]
        fragment = expression_fragment(text)
        path = path_of(without_casts(fragment)) if fragment is not None else None
        for position, name in enumerate(names):
            value: HostValue | None = None
            if isinstance(given, Extents) and position < 3:
                value = given.axes()[position]
            elif isinstance(given, Listing) and position < len(given.values):
                value = given.values[position]
            elif path is not None:
                value = variable(context, f"{path}.{name}", frame, site.range.start_byte)
            if isinstance(value, Quantity):
                arguments[f"{parameter.name}.{name}"] = value


def sizes_of_types(context: Context, spelling: str) -> int | None:
    """Bytes of a type as far as the host code's evaluation knows them."""
    value = constants.size_of_type(context, spelling, None)
    return int(value.value) if isinstance(value, Quantity) else None
