"""Signatures, docstrings and tables read from the installed package, as Markdown."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re
from typing import Any

import pygpukit as gp

# Their return value needs no saying, or says nothing.
PLAIN_RETURNS = {"", "GPUArray", "object", "Any"}


def load(path: str) -> Any:
    """The module of that path, also where a function of the same name hides it."""
    return importlib.import_module(path)


def sub_modules(packages: tuple[str, ...]) -> list[str]:
    paths = []
    for package in packages:
        paths.append(package)
        found = pkgutil.iter_modules(load(package).__path__, package + ".")
        paths += sorted(info.name for info in found if not info.name.rpartition(".")[2].startswith("_"))
    return [path for path in paths if hasattr(load(path), "__all__")]


def public_names(module: Any) -> list[str]:
    """What a module says it exports; of the extension's own, all that is no module and has no underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, value in sorted(vars(module).items()) if name[0] != "_" and not inspect.ismodule(value)]


def children(module: Any) -> list[str]:
    """Sub-modules of a module of the extension."""
    return [] if hasattr(module, "__all__") else [n for n, v in sorted(vars(module).items()) if inspect.ismodule(v)]


def constant(module: Any, name: str, value: Any) -> str:
    """A value, or the comment `#:` above it and its definition."""
    source = inspect.getsource(module) if hasattr(module, "__file__") else ""
    found = re.search(rf"^#: (.*)\.\n{name}: \w+ = (.*)$", source, re.M)
    return f"{text(found[1])}: {code(found[2])}" if found else code(repr(value))


def text(doc: str | None) -> str:
    """A docstring as one line of a Markdown table."""
    words = " ".join(inspect.cleandoc(doc or "").split())
    words = re.sub(r":\w+:`([^`]*)`", r"`\1`", words).replace("``", "`")
    words = re.sub(r"(?<![`\w])(__\w+__)(?![`\w])", r"`\1`", words)
    return words.replace("|", "\\|")


def code(value: str) -> str:
    return "`" + value.replace("|", "\\|") + "`"


def shown(value: Any) -> str:
    """A default value."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


def short(annotation: str) -> str:
    inner = annotation.replace("pygpukit._core.", "").replace("pygpukit.typing.", "").replace("random.Generator", "Generator")
    return re.sub(r"\b(runtime\.(\w+\.)?|_tasks\.|typing\.)(?=[A-Z])", "", inner).strip("'\"")


@dataclasses.dataclass(frozen=True)
class Call:
    """What one function shows of itself."""

    parameters: str
    returns: str
    doc: str

    def shown(self, name: str) -> str:
        result = "" if self.returns in PLAIN_RETURNS else f" -> {self.returns}"
        return code(f"{name}({self.parameters}){result}")


def native_call(signature: str, doc: str | None, defaults: tuple[Any, ...] | None) -> Call:
    """From `def name(a: T, b: T = \\0) -> R`, as nanobind writes it, and the defaults."""
    source = re.sub(r"^def \(", "def getter(", re.sub(r"\\(\d+)", r"_default_\1", signature))
    function = ast.parse(source + ": ...").body[0]
    assert isinstance(function, ast.FunctionDef)

    def default(node: ast.expr) -> str:
        source = ast.unparse(node)
        number = source.removeprefix("_default_")
        return shown((defaults or ())[int(number)]) if number != source else source

    arguments = function.args
    parts: list[str] = []
    plain = [*arguments.posonlyargs, *arguments.args]
    first_default = len(plain) - len(arguments.defaults)
    for index, argument in enumerate(plain):
        value = arguments.defaults[index - first_default] if index >= first_default else None
        if argument.arg != "self":
            parts.append(argument.arg + (f"={default(value)}" if value is not None else ""))
    if arguments.vararg:
        parts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        parts.append("*")
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parts.append(argument.arg + (f"={default(value)}" if value is not None else ""))
    if arguments.kwarg:
        parts.append(f"**{arguments.kwarg.arg}")
    returns = short(ast.unparse(function.returns)) if function.returns else ""
    return Call(", ".join(parts), returns, text(doc))


def python_call(function: Any) -> Call:
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name not in ("self", "cls")]
    parts, starred = [], False
    for parameter in plain:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        name = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
        parts.append(name if parameter.default is parameter.empty else f"{name}={shown(parameter.default)}")
    returns = signature.return_annotation
    named = "" if returns is signature.empty else inspect.formatannotation(returns)
    return Call(", ".join(parts), short(named), text(function.__doc__))


def calls(function: Any) -> list[Call]:
    """One per overload."""
    function = getattr(function, "__func__", function)
    native = getattr(function, "__nb_signature__", None)
    return [native_call(*overload) for overload in native] if native else [python_call(function)]


def function_row(name: str, function: Any) -> tuple[str, str]:
    found = calls(function)
    meaning = next((call.doc for call in found if call.doc), "")
    if not meaning:
        raise ValueError(f"{name} has no docstring")
    return "<br>".join(dict.fromkeys(call.shown(name) for call in found)), meaning


def is_error(value: type) -> bool:
    return issubclass(value, BaseException)


def class_meaning(name: str, value: type) -> str:
    meaning = text(value.__dict__.get("__doc__"))
    if not meaning:
        raise ValueError(f"{name} has no docstring")
    return meaning


def also_a(value: type) -> str:
    """The builtin exceptions a class also is, beside the RuntimeError that all are."""
    if not is_error(value):
        return ""
    plain = {"RuntimeError", "LookupError", "Exception", "BaseException", "object"}
    named = [b.__name__ for b in value.__mro__ if b.__module__ == "builtins" and b.__name__ not in plain]
    return f" Also: {', '.join(f'`{name}`' for name in named)}." if named else ""


def any_row(label: str, name: str, value: Any) -> tuple[str, str]:
    if inspect.isclass(value):
        return f"`{label}`", class_meaning(name, value)
    if callable(value):
        shown_call, meaning = function_row(name, value)
        return shown_call.replace(f"`{name}(", f"`{label}("), meaning
    return f"`{label}`", code(shown(value))


def constructor(name: str, value: type) -> str | None:
    """How an object is made, for classes users make objects of."""
    native = getattr(value.__init__, "__nb_signature__", None)
    if native:
        found = [native_call(*overload) for overload in native]
    elif dataclasses.is_dataclass(value) or inspect.isfunction(value.__init__):
        call = python_call(value)
        found = [Call(call.parameters, "", text(value.__init__.__doc__ if not dataclasses.is_dataclass(value) else ""))]
    else:
        return None
    rows = []
    for call in found:
        doc = f": {call.doc}" if call.doc else ""
        rows.append(Call(call.parameters, "", "").shown(name) + doc)
    return "<br>".join(rows)


def member_rows(value: type) -> list[tuple[str, str]]:
    """Public members the class defines itself. A member without a docstring shows its type."""
    rows = []
    for name, member in sorted(vars(value).items()):
        if name.startswith("_") or isinstance(member, value):
            continue
        if isinstance(member, property):
            native = getattr(member.fget, "__nb_signature__", None)
            call = native_call(*native[0]) if native else python_call(member.fget)
            rows.append((f"`{name}`", call.doc or code(call.returns)))
        elif isinstance(member, (staticmethod, classmethod)) or callable(member):
            found = calls(member)
            meaning = next((call.doc for call in found if call.doc), "") or code(found[0].returns)
            rows.append(("<br>".join(call.shown(name) for call in found), meaning))
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    have = {name for name, _ in rows}
    return [(f"`{f.name}`", code(str(f.type))) for f in fields if f"`{f.name}`" not in have] + rows


# Tables about dtypes, computed by the package itself.

LETTERS = {
    "bool": "b", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def result(*arguments: Any) -> str:
    try:
        return LETTERS[str(gp.result_type(*arguments))]
    except gp.DTypeError:
        return "-"


def dtype(name: str) -> Any:
    return gp.core.DataType.from_string(name)


def promotion_table() -> str:
    names = list(LETTERS)
    lines = ["".join(f"{LETTERS.get(name, ''):>5}" for name in ["", *names])]
    for a in names:
        lines.append(f"{LETTERS[a]:>5}" + "".join(f"{result(dtype(a), dtype(b)):>5}" for b in names))
    return "```\n" + "\n".join(lines) + "\n```\n"


def weak_table() -> str:
    lines = ["| array | with a bool | with an int | with a float | with a complex |", "|---|---|---|---|---|"]
    full = {short_name: name for name, short_name in LETTERS.items()}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in LETTERS:
        row = tuple(full[result(dtype(name), scalar)] for scalar in (True, 1, 1.5, 1j))
        key = tuple("itself" if cell == name else cell for cell in row)
        groups.setdefault(key, []).append(name)
    lines += [f"| {', '.join(names)} | " + " | ".join(key) + " |" for key, names in groups.items()]
    return "\n".join(lines) + "\n"


def dtype_table() -> str:
    lines = ["| dtype | bytes | in NumPy |", "|---|---|---|"]
    for kind in gp.core.DataTypeKind:
        found = dtype(kind.value)
        lines.append(f"| `{found.name}` | {found.itemsize} | `{found.to_numpy_dtype()}` |")
    return "\n".join(lines) + "\n"


def aliases(functions: dict[str, Any]) -> list[list[str]]:
    """Names of one function: equal meaning and parameters."""
    groups: dict[tuple[Call, ...], list[str]] = {}
    for name in sorted(functions):
        groups.setdefault(tuple(calls(functions[name])), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def alias_table(functions: dict[str, Any]) -> str:
    lines = ["| name | the same function |", "|---|---|"]
    for first, *others in aliases(functions):
        lines.append(f"| `{first}` | " + ", ".join(f"`{name}`" for name in others) + " |")
    return "\n".join(lines) + "\n"
