"""What inspect.signature reads of functions of the extension: made when first asked for."""

from __future__ import annotations

import ast
import re
from inspect import Parameter, Signature
from typing import Any


def _text(node: ast.expr | None) -> Any:
    return Parameter.empty if node is None else ast.unparse(node)


def of(function: Any) -> Signature:
    """The signature of the first overload. Types are text, as under `from __future__ import annotations`."""
    text, _, *rest = function.__nb_signature__[0]
    values = rest[0] if rest else ()
    # Defaults are written as places in `values`.
    source = re.sub(r"\\(\d+)", r"_default[\1]", text[text.rfind("def ") :]) + ": ..."
    parsed = ast.parse(source).body[0]
    assert isinstance(parsed, ast.FunctionDef)

    def default(node: ast.expr | None) -> Any:
        if node is None:
            return Parameter.empty
        if isinstance(node, ast.Subscript):
            return values[ast.literal_eval(node.slice)]
        return ast.literal_eval(node)

    arguments = parsed.args
    kinds: list[Any] = [Parameter.POSITIONAL_ONLY] * len(arguments.posonlyargs)
    kinds += [Parameter.POSITIONAL_OR_KEYWORD] * len(arguments.args)
    leading = list(zip([*arguments.posonlyargs, *arguments.args], kinds, strict=True))
    padding: list[ast.expr | None] = [None] * (len(leading) - len(arguments.defaults))
    parameters = [
        Parameter(a.arg, kind, default=default(value), annotation=_text(a.annotation))
        for (a, kind), value in zip(leading, padding + list(arguments.defaults), strict=True)
    ]
    if arguments.vararg:
        parameters.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    parameters += [
        Parameter(a.arg, Parameter.KEYWORD_ONLY, default=default(value), annotation=_text(a.annotation))
        for a, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        parameters.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    if hasattr(function, "__self__") and parameters and parameters[0].name == "self":
        del parameters[0]
    return Signature(parameters, return_annotation=_text(parsed.returns))
