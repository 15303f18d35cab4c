"""Writes docs/api.md from tools/api_preamble.md and the signatures and docstrings of the installed package.

`--check` writes nothing and exits 1 when the file is not what would be written.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import inspect
import sys
import types
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import api_reader as reader
import pygpukit as gp

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "api.md"
PREAMBLE = Path(__file__).resolve().parent / "api_preamble.md"

# Title and names or patterns. A function that is named nowhere is listed under "Other": an operation needs no entry.
SECTIONS = [
    ("Making arrays", "zeros ones empty full eye arange linspace *_like from_numpy from_dlpack asarray"),
    (
        "Arithmetic",
        "add sub subtract mul multiply div divide floor_divide remainder pow power minimum maximum neg negative "
        "positive abs absolute sign square reciprocal clamp clip where",
    ),
    (
        "Functions of one array",
        "exp expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh erf floor ceil "
        "round trunc real imag",
    ),
    ("Activations and norms", "relu relu2 sigmoid gelu silu softmax layernorm rmsnorm bias_add_inplace"),
    (
        "Comparisons, logic, bits",
        "equal not_equal less less_equal greater greater_equal logical_* bitwise_* invert left_shift right_shift isnan "
        "isinf isfinite",
    ),
    ("Reductions", "sum mean prod max min argmax argmin any all var std sum_axis cumsum"),
    ("Matrix products", "matmul explain_matmul batched_matmul transpose linear linear_swiglu linear_bias_gelu"),
    ("Determinism", "determinism get_determinism"),
    ("Quantised arrays", "quantize dequantize scaled_matmul grouped_matmul explain_grouped_matmul pack"),
    ("Indices", "take take_along_axis gather scatter put_along_axis nonzero argwhere compress"),
    (
        "Shapes",
        "reshape ravel flatten permute permute_dims moveaxis swapaxes squeeze expand_dims expand broadcast_to "
        "broadcast_arrays flip roll concat concatenate stack unstack split repeat tile pad contiguous",
    ),
    ("dtypes and copies", "astype bitcast result_type copy_to copy_to_device* copy_device_to_device*"),
    (
        "Devices, streams, memory",
        "devices default_device is_cuda_available cuda_unavailable_reason get_device_info get_device_capabilities "
        "get_driver_version get_memory_info health synchronize current_stream default_stream event_elapsed_* "
        "num_threads set_num_threads",
    ),
    (
        "Kernels of your own",
        "jit fuse is_nvrtc_available get_nvrtc_* warmup is_warmup_done get_warmup_error get_driver_requirements "
        "check_driver_compatibility",
    ),
]

CLASSES = [
    "GPUArray", "Device", "Stream", "StreamPriority", "CudaEvent", "CudaGraph", "StreamManager", "JITKernel",
    "ElementwiseKernel", "ReductionKernel", "DataType", "DeviceInfo", "DeviceProperties", "DeviceCapabilities",
    "KernelType", "NvrtcErrorCode",
]  # fmt: skip

MODULES = [
    ("pygpukit.memory", "Memory pools"),
    ("pygpukit.scheduler", "Tasks and contexts"),
    ("pygpukit.random", "Random numbers"),
    ("pygpukit.benchmark", "Benchmarks"),
    ("pygpukit.profiling", "Profiling"),
    ("pygpukit.triton", "Triton kernels"),
    ("pygpukit.triton.kernels", "Kernels in Triton"),
    ("pygpukit.testing", "Help for tests"),
    ("pygpukit.errors", "Errors"),
    ("pygpukit.runtime", "The runtime core"),
    ("pygpukit.typing", "Types of arguments"),
    ("pygpukit.compat", "Names of the 0.2 series"),
]


def functions() -> dict[str, Any]:
    values = {name: getattr(gp, name) for name in gp.__all__ if name not in gp.compat.__all__}
    return {n: v for n, v in values.items() if callable(v) and not inspect.isclass(v)}


def table(title: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {title} | meaning |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows)]
    return "\n".join(lines) + "\n"


def function_table(names: list[str], values: dict[str, Any], groups: dict[str, list[str]]) -> str:
    """A row per function; a second name is said in the row of the first."""
    rows: dict[str, tuple[str, str]] = {}
    for name in names:
        others = [other for other in groups.get(name, []) if other != name and other in names]
        if not any(other in rows for other in others):
            call, meaning = reader.function_row(name, values[name])
            also = f" Also `{'`, `'.join(others)}`." if others else ""
            rows[name] = (call, meaning + also)
    return table("call", list(rows.values()))


def function_sections() -> str:
    values = functions()
    groups = {name: names for names in reader.aliases(values) for name in names}
    left = set(values)
    parts = []
    for title, patterns in [*SECTIONS, ("Other", "*")]:
        chosen: list[str] = []
        for pattern in patterns.split():
            chosen += [name for name in sorted(left) if fnmatchcase(name, pattern) and name not in chosen]
        left -= set(chosen)
        if chosen:
            parts.append(f"### {title}\n\n" + function_table(chosen, values, groups))
    return "\n".join(parts)


def class_section(name: str, value: type) -> str:
    lines = [f"### {name}", "", reader.class_meaning(name, value), ""]
    if issubclass(value, enum.Enum):
        rows = [(f"`{member.name}`", f"{member.value}") for member in value]
        return "\n".join([*lines, table("member", rows).replace("meaning", "value")])
    constructor = reader.constructor(name, value)
    if constructor is not None:
        lines += [constructor, ""]
    members = reader.member_rows(value)
    return "\n".join([*lines, table("member", members)]) if members else "\n".join(lines)


def class_sections() -> str:
    public = {n for n in gp.__all__ if inspect.isclass(getattr(gp, n)) and not reader.is_error(getattr(gp, n))}
    public -= {"device"}  # another name of Device
    names = [n for n in CLASSES if n in public] + sorted(public - set(CLASSES))
    return "\n".join(class_section(name, getattr(gp, name)) for name in names)


def module_section(path: str, title: str) -> str:
    module = reader.load(path)
    parts = [f"## {title}: `{path}`\n", reader.text(module.__doc__) + "\n"]
    rows = []
    for name in reader.public_names(module):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        if inspect.isclass(value) and not (reader.is_error(value) or issubclass(value, enum.Enum)):
            parts.append(class_section(name, value))
        elif inspect.isclass(value):
            rows.append((f"`{name}`", reader.class_meaning(name, value) + reader.also_a(value)))
        elif callable(value) and not isinstance(value, types.GenericAlias):
            rows.append(reader.function_row(name, value))
        else:
            rows.append((f"`{name}`", reader.constant(module, name, value)))
    parts += child_sections(path, module)
    return "\n".join([*parts[:2], *([table("name", rows)] if rows else []), *parts[2:]])


def child_sections(path: str, module: types.ModuleType) -> list[str]:
    """Sub-modules of the extension: where names are found again, and what only they have."""
    rows, parts, known = [], [], {id(getattr(module, name)) for name in reader.public_names(module)}
    for child in reader.children(module):
        inner = getattr(module, child)
        names = reader.public_names(inner)
        rows.append((f"`{path}.{child}`", " ".join(f"`{name}`" for name in names)))
        only = [name for name in names if id(getattr(inner, name)) not in known]
        parts += [class_section(f"{child}.{n}", getattr(inner, n)) for n in only if inspect.isclass(getattr(inner, n))]
        calls = [reader.any_row(f"{child}.{n}", n, getattr(inner, n)) for n in only if not inspect.isclass(getattr(inner, n))]
        parts += [table("name", calls)] if calls else []
    return [table("module", rows).replace("meaning", "names"), *parts] if rows else []


def import_paths() -> str:
    """Where else a name can be imported from, and what only those modules have."""
    known = {id(getattr(gp, name)) for name in gp.__all__}
    rows, extra = [], []
    for path in reader.sub_modules(("pygpukit.core", "pygpukit.ops", "pygpukit.jit")):
        module = reader.load(path)
        names = list(module.__all__)
        if path in ("pygpukit.ops", "pygpukit.ops.basic"):
            rows.append((f"`{path}`", "every operation on arrays"))
            continue
        rows.append((f"`{path}`", " ".join(f"`{name}`" for name in names)))
        for name in names:
            value = getattr(module, name)
            if id(value) in known or isinstance(value, types.ModuleType):
                continue
            known.add(id(value))
            extra.append(reader.any_row(f"{path.removeprefix('pygpukit.')}.{name}", name, value))
    text = "## Import paths of the 0.2 series\n\nThe same objects, under the paths 0.2 code imports them from.\n\n"
    text += table("module", rows).replace("meaning", "names")
    return text + "\nOnly there:\n\n" + table("name", extra)


def fill(preamble: str) -> str:
    values = {
        "version": gp.__version__,
        "dtypes": reader.dtype_table(),
        "promotion": reader.promotion_table(),
        "weak": reader.weak_table(),
        "aliases": reader.alias_table(functions()),
    }
    for name, value in values.items():
        marker = "{{" + name + "}}"
        if marker not in preamble:
            raise ValueError(f"{PREAMBLE.name}: no {marker}")
        preamble = preamble.replace(marker, value.rstrip("\n"))
    return preamble.rstrip("\n") + "\n"


def generate() -> str:
    parts = [fill(PREAMBLE.read_text()), "## Functions\n", function_sections(), "## Classes\n", class_sections()]
    parts += [module_section(path, title) for path, title in MODULES]
    parts.append(import_paths())
    text = "\n".join(parts)
    if not text.isascii():
        bad = next(line for line in text.splitlines() if not line.isascii())
        raise ValueError(f"a docstring is not ASCII: {bad}")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = generate()
    if not arguments.check:
        TARGET.write_text(text)
        return 0
    committed = TARGET.read_text() if TARGET.exists() else ""
    difference = difflib.unified_diff(committed.splitlines(), text.splitlines(), "committed", "generated", lineterm="")
    lines = list(difference)
    print("\n".join(lines[:40]))
    print("docs/api.md: differs; run tools/make_api_docs.py" if lines else "docs/api.md: ok")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
