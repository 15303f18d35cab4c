"""The figures of elementwise operations, `ew_*`, and of transposed inputs, `transpose_*`: beside torch, and as a share of
the rate of a copy. See measure.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from report import Report
from timing import against_torch_us, gpu_times_us, torch_noise

ROWS, COLUMNS = 16384, 8192
NAMES = {"bf16": "bfloat16", "f32": "float32"}


def random_array(gp: Any, shape: tuple[int, ...], dtype: str, low: float = 0.05, high: float = 0.95) -> Any:
    return gp.random.uniform(shape, low=low, high=high, dtype=dtype)


def copy_ceiling(gp: Any, torch: Any, report: Report) -> float:
    """Bytes read plus written per microsecond by a device-to-device copy of 1 GiB: the driver's and torch's, the better."""
    source = torch.rand(1 << 28, device="cuda")
    target = torch.empty_like(source)
    a, b = gp.from_dlpack(source), gp.from_dlpack(target)
    ours, theirs = against_torch_us(gp, torch, lambda: gp.copy_to(a, b), lambda: target.copy_(source))
    driver = gpu_times_us(gp, [lambda: gp.core.memory.copy_device_to_device_offset(b, 0, a, 0, 1 << 30)])[0]
    rate = 2 * (1 << 30) / min(theirs, driver)
    report.add("copy_ceiling_tb_s", rate / 1e6, torch_us=theirs, driver_us=driver, ours_us=ours)
    return rate


def elementwise_table(gp: Any, torch: Any) -> list[tuple[str, int, Callable[..., Any], Callable[..., Any], str]]:
    """(name, inputs, ours, torch's, dtypes): dtypes is `float`, `int` or `bool`."""
    f = "float"
    rows: list[tuple[str, int, Callable[..., Any], Callable[..., Any], str]] = [
        ("add", 2, gp.add, torch.add, f),
        ("sub", 2, gp.sub, torch.sub, f),
        ("mul", 2, gp.mul, torch.mul, f),
        ("div", 2, gp.div, torch.div, f),
        ("pow", 2, gp.pow, torch.pow, f),
        ("remainder", 2, gp.remainder, torch.remainder, f),
        ("floor_divide", 2, gp.floor_divide, torch.floor_divide, f),
        ("minimum", 2, gp.minimum, torch.minimum, f),
        ("maximum", 2, gp.maximum, torch.maximum, f),
        ("atan2", 2, gp.atan2, torch.atan2, f),
        ("equal", 2, gp.equal, torch.eq, f),
        ("not_equal", 2, gp.not_equal, torch.ne, f),
        ("less", 2, gp.less, torch.lt, f),
        ("less_equal", 2, gp.less_equal, torch.le, f),
        ("greater", 2, gp.greater, torch.gt, f),
        ("greater_equal", 2, gp.greater_equal, torch.ge, f),
        ("logical_and", 2, gp.logical_and, torch.logical_and, "bool"),
        ("logical_or", 2, gp.logical_or, torch.logical_or, "bool"),
        ("logical_xor", 2, gp.logical_xor, torch.logical_xor, "bool"),
        ("logical_not", 1, gp.logical_not, torch.logical_not, "bool"),
        ("bitwise_and", 2, gp.bitwise_and, torch.bitwise_and, "int"),
        ("bitwise_or", 2, gp.bitwise_or, torch.bitwise_or, "int"),
        ("bitwise_xor", 2, gp.bitwise_xor, torch.bitwise_xor, "int"),
        ("bitwise_not", 1, gp.bitwise_invert, torch.bitwise_not, "int"),
        ("left_shift", 2, gp.bitwise_left_shift, torch.bitwise_left_shift, "shift"),
        ("right_shift", 2, gp.bitwise_right_shift, torch.bitwise_right_shift, "shift"),
    ]
    unary = {
        "neg": torch.neg,
        "abs": torch.abs,
        "sign": torch.sign,
        "exp": torch.exp,
        "expm1": torch.expm1,
        "log": torch.log,
        "log1p": torch.log1p,
        "log2": torch.log2,
        "log10": torch.log10,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "square": torch.square,
        "reciprocal": torch.reciprocal,
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "asin": torch.asin,
        "acos": torch.acos,
        "atan": torch.atan,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "tanh": torch.tanh,
        "erf": torch.erf,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "round": torch.round,
        "trunc": torch.trunc,
        "sigmoid": torch.sigmoid,
        "isnan": None,
        "isinf": None,
        "isfinite": None,
    }
    for name, peer in unary.items():
        if peer is None:
            function = getattr(torch, name)
            rows.append((name, 1, getattr(gp, name), lambda x, out, g=function: g(x), f))
        else:
            rows.append((name, 1, getattr(gp, name), peer, f))
    functional = torch.nn.functional
    rows += [
        ("relu", 1, gp.relu, lambda x, out: functional.relu(x), f),
        ("relu2", 1, gp.relu2, lambda x, out: torch.square(functional.relu(x)), f),
        ("gelu", 1, gp.gelu, lambda x, out: functional.gelu(x, approximate="tanh"), f),
        ("silu", 1, gp.silu, lambda x, out: functional.silu(x), f),
        (
            "clamp",
            1,
            lambda x, out: gp.clamp(x, 0.25, 0.75, out=out),
            lambda x, out: torch.clamp(x, 0.25, 0.75, out=out),
            f,
        ),
    ]
    return rows


NEAR_COPY = {"add": 0.90, "mul": 0.90, "relu": 0.90, "exp": 0.80, "tanh": 0.80, "gelu": 0.80, "silu": 0.80}


def measure_elementwise(gp: Any, torch: Any, report: Report) -> None:
    ceiling = copy_ceiling(gp, torch, report)
    noise = 0.0
    for short, name in NAMES.items():
        torch_dtype = getattr(torch, name)
        item = 2 if short == "bf16" else 4
        elements = ROWS * COLUMNS
        ta, tb = (torch.rand(ROWS, COLUMNS, device="cuda").mul_(0.9).add_(0.05).to(torch_dtype) for _ in range(2))
        tout = torch.empty_like(ta)
        tbool = torch.empty(ROWS, COLUMNS, dtype=torch.bool, device="cuda")
        tint = [torch.randint(0, 1 << 20, (ROWS, COLUMNS), dtype=torch.int32, device="cuda") for _ in range(2)]
        tlogic = [t > 1 << 19 for t in tint]
        tshift = tint[1] & 15
        tint_out = torch.empty_like(tint[0])
        itself = [
            lambda: torch.neg(ta, out=tout),
            lambda: torch.sub(ta, tb, out=tout),
            lambda: torch.eq(ta, tb, out=tbool),
        ]
        noise = max(noise, torch_noise(torch, itself))
        for op, arity, ours, theirs, kind in elementwise_table(gp, torch):
            if kind != "float" and short == "bf16":
                continue
            inputs = {"float": [ta, tb], "int": tint, "bool": tlogic, "shift": [tint[0], tshift]}[kind][:arity]
            views = [gp.from_dlpack(t) for t in inputs]
            probe = ours(views[0][:1, :1], *[v[:1, :1] for v in views[1:]], out=None)
            boolean = str(probe.dtype) == "bool"
            target = tbool if boolean else (tout if kind == "float" else tint_out)
            out = gp.from_dlpack(target)
            us, torch_us = against_torch_us(
                gp, torch, lambda: ours(*views, out=out), lambda: theirs(*inputs, out=target)
            )
            in_item = {"float": item, "int": 4, "shift": 4, "bool": 1}[kind]
            moved = elements * (arity * in_item + (1 if boolean else in_item))
            share = moved / us / ceiling
            label = {"float": short, "shift": "int"}.get(kind, kind)
            key = f"ew_{op}_{label}"
            details = {"us": us, "torch_us": torch_us, "share_of_copy": share, "vs_torch": torch_us / us}
            if op in NEAR_COPY:
                report.add(f"{key}_vs_copy", share, **details)
            else:
                report.add(f"{key}_vs_torch", torch_us / us, **details)
        mask = gp.from_dlpack(tlogic[0])
        a, b, out = (gp.from_dlpack(t) for t in (ta, tb, tout))
        us, torch_us = against_torch_us(
            gp, torch, lambda: gp.where(mask, a, b, out=out), lambda: torch.where(tlogic[0], ta, tb, out=tout)
        )
        report.add(f"ew_where_{short}_vs_copy", elements * (3 * item + 1) / us / ceiling, us=us, torch_us=torch_us)
        other = "bfloat16" if short == "f32" else "float32"
        convert = gp.ops.cast_f32_to_bf16 if short == "f32" else gp.ops.cast_bf16_to_f32
        tcast = torch.empty(ROWS, COLUMNS, dtype=getattr(torch, other), device="cuda")
        cast = gp.from_dlpack(tcast)
        us, torch_us = against_torch_us(gp, torch, lambda: convert(a, out=cast), lambda: tcast.copy_(ta))
        report.add(f"ew_cast_{short}_vs_copy", elements * 6 / us / ceiling, us=us, torch_us=torch_us)
    report.add("torch_self_noise", noise)


def measure_layout(gp: Any, torch: Any, report: Report) -> None:
    ceiling = copy_ceiling(gp, torch, report)
    for short, name in NAMES.items():
        item = 2 if short == "bf16" else 4
        a = random_array(gp, (COLUMNS, ROWS), name)
        b = random_array(gp, (ROWS, COLUMNS), name)
        out = gp.empty((ROWS, COLUMNS), dtype=name)
        view = a.T
        us = gpu_times_us(gp, [lambda: gp.add(view, b, out=out), lambda: gp.copy_to(view, out)])
        moved = ROWS * COLUMNS * item
        report.add(f"transpose_add_{short}_vs_copy", 3 * moved / us[0] / ceiling, us=us[0])
        report.add(f"transpose_copy_{short}_vs_copy", 2 * moved / us[1] / ceiling, us=us[1])


GROUPS = {"elementwise": measure_elementwise, "layout": measure_layout}
