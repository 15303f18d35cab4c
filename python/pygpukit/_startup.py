"""What importing the package does: no driver call, no process, no thread."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Container
from types import ModuleType
from typing import Any

from pygpukit import _core

# What the extension binds for pygpukit.compat: these names answer in `pygpukit` and `pygpukit.ops` too.
OLD_NAMES = tuple(name for name in dir(_core._compat) if not name.startswith("_"))

# Sub-modules that are imported when first asked for.
_LAZY = ("benchmark", "compat", "core", "llm", "memory", "ops", "scheduler", "testing", "typing")

# `gp.bool` exists, but `from pygpukit import *` must not hide the builtin.
_ALIASES = {"bool": ("pygpukit.core.dtypes", "bool_")}


def connect() -> str:
    """Tells the library where its own files and NVIDIA's wheels are. Gives its version."""
    level = os.environ.get("PYGPUKIT_LOG", "").strip().lower()
    if level in ("debug", "info", "warning", "error"):
        import logging

        logging.getLogger("pygpukit").setLevel(level.upper())
    _core._set_site_packages([path for path in sys.path if path.endswith(("site-packages", "dist-packages"))])
    _core._set_bundle_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.bundle"))
    return _core._version()


def alias_runtime(name: str) -> None:
    """Makes `import name` and `import name.memory` give the modules of the extension themselves."""
    runtime = _core.runtime
    sys.modules[name] = runtime
    for child, module in vars(runtime).items():
        if isinstance(module, ModuleType):
            sys.modules[f"{name}.{child}"] = module


def public_names(namespace: dict[str, Any]) -> list[str]:
    """Everything without an underscore that the package defines, the lazy sub-modules, and last the names of 0.2."""
    hidden = {"annotations"}
    names = {name for name in namespace if not name.startswith("_")} - hidden
    return [*sorted(names | set(_LAZY) | {"__version__"}), *OLD_NAMES]


def names_with_lazy(namespace: dict[str, Any]) -> list[str]:
    return sorted(set(namespace) | set(_LAZY) | set(_ALIASES))


def load_lazily(name: str) -> object:
    """A sub-module, an alias or a name of 0.2, or AttributeError."""
    if name in _LAZY:
        return importlib.import_module(f"pygpukit.{name}")
    if name in _ALIASES:
        module, attribute = _ALIASES[name]
        return getattr(importlib.import_module(module), attribute)
    if name in OLD_NAMES:
        return old_name(name)
    raise AttributeError(f"module 'pygpukit' has no attribute {name!r}")


def old_name(name: str) -> object:
    """A name of 0.2, loaded when first asked for."""
    return getattr(importlib.import_module("pygpukit.compat"), name)


def old_names(module: str, names: Container[str], lazy: Container[str] = ()) -> Callable[[str], object]:
    """`__getattr__` of a module that answers to names of pygpukit.compat without having or listing them.

    `lazy`: sub-modules that are imported when first asked for.
    """

    def get(name: str) -> object:
        if name in lazy:
            return importlib.import_module(f"{module}.{name}")
        if name in names:
            return old_name(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
