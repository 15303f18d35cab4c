"""Calls with ``out=`` of the operations that ``OpCase`` does not describe, for the tests that capture every operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from opcase import OpCase, upload

import pygpukit as gp

CASES: list[OpCase] = []  # test_ops.py has nothing to run here

Arrays = list[gp.GPUArray]


@dataclass(frozen=True)
class Call:
    """``run(arrays, out=...)`` of one operation. ``make`` gives other values, of the same shapes, for another generator."""

    name: str
    make: Callable[[np.random.Generator], Arrays]
    run: Callable[..., Any]
    label: str = ""
    module: Any = field(default=gp.ops, compare=False)
    overlaps: bool = True  # arrays that share memory with out are for this operation to handle

    @property
    def id(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


def plain(name: str, make: Callable[[np.random.Generator], Arrays], label: str = "", **kwargs: Any) -> Call:
    """The arrays are the arguments."""
    return Call(name, make, lambda arrays, **more: getattr(gp.ops, name)(*arrays, **kwargs, **more), label)


def listed(name: str, make: Callable[[np.random.Generator], Arrays], label: str = "", **kwargs: Any) -> Call:
    """The arrays are the first argument."""
    return Call(name, make, lambda arrays, **more: getattr(gp.ops, name)(arrays, **kwargs, **more), label)


def normal(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[np.random.Generator], Arrays]:
    return lambda rng: [upload(rng.normal(size=shape), "float32").astype(dtype) for shape in shapes]


def turned(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[np.random.Generator], Arrays]:
    """Arrays of these shapes whose first axis is the dense one."""
    return lambda rng: [upload(rng.normal(size=shape[::-1]), "float32").astype(dtype).T for shape in shapes]


def with_indices(
    shape: tuple[int, ...], indices: tuple[int, ...], below: int, dtype: str = "int64", values: str | None = None
) -> Callable[[np.random.Generator], Arrays]:
    def make(rng: np.random.Generator) -> Arrays:
        arrays = [upload(rng.normal(size=shape), "float32"), upload(rng.integers(0, below, indices), dtype)]
        return arrays if values is None else [*arrays, upload(rng.integers(0, 50, indices), values)]

    return make


def quantized(shape: tuple[int, ...], format: str, **options: Any) -> Callable[[np.random.Generator], Arrays]:
    return lambda rng: list(gp.quantize(upload(rng.normal(size=shape), "float32"), format, **options))


def float8_arrays(rng: np.random.Generator) -> Arrays:
    """q, k and v, then their scales."""
    arrays = normal((2, 9, 4, 16), (2, 70, 2, 16), (2, 70, 2, 16), dtype="float8_e4m3")(rng)
    return [*arrays, *(upload(rng.uniform(0.5, 2, 2), "float32") for _ in range(3))]


def float8_attention(arrays: Arrays, **more: Any) -> Any:
    q_scale, k_scale, v_scale = arrays[3:]
    return gp.attention(*arrays[:3], q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, **more)


def dequantize(label: str, shape: tuple[int, ...], format: str, names: tuple[str, ...] = (), **options: Any) -> Call:
    def run(arrays: Arrays, **more: Any) -> Any:
        return gp.dequantize(arrays[0], arrays[1], **dict(zip(names, arrays[2:], strict=True)), **more)

    return Call("dequantize", quantized(shape, format, **options), run, label)


def scaled(label: str, m: int, n: int, k: int, format_a: str | None, format_b: str, **options: Any) -> Call:
    """a [m, k] by weights [n, k]; a is bfloat16 without a format."""

    def make(rng: np.random.Generator) -> Arrays:
        rows, weights = upload(rng.normal(size=(m, k)), "float32"), upload(rng.normal(size=(n, k)), "float32")
        left = list(gp.quantize(rows, format_a, block="row")) if format_a else [rows.astype("bfloat16")]
        return [*left, *gp.quantize(weights, format_b, **options)]

    def run(arrays: Arrays, **more: Any) -> Any:
        if format_a:
            return gp.scaled_matmul(arrays[0], arrays[2], arrays[1], arrays[3], out_dtype="bfloat16", **more)
        return gp.scaled_matmul(arrays[0], arrays[1], scale_b=arrays[2], **more)

    return Call("scaled_matmul", make, run, label)


def grouped(label: str, m: int, dtype: str) -> Call:
    def make(rng: np.random.Generator) -> Arrays:
        rows, weights = normal((m, 64), (4, 48, 64), dtype=dtype)(rng)
        return [rows, weights, upload(rng.integers(0, 4, m), "int32")]

    return Call("grouped_matmul", make, lambda arrays, **more: gp.grouped_matmul(*arrays, **more), label)


def random(name: str, **kwargs: Any) -> Call:
    def run(arrays: Arrays, **more: Any) -> Any:
        return getattr(gp.random, name)(shape=(33, 18), seed=7, **kwargs, **more)

    return Call(name, lambda rng: [], run, module=gp.random)


def swiglu(rng: np.random.Generator) -> Arrays:
    return normal((9, 64), (48, 64), (48, 64), dtype="bfloat16")(rng)


def sample(rng: np.random.Generator) -> Arrays:
    rows, vocab = 7, 3000
    integers = [rng.integers(0, 40, rows), rng.integers(0, 9, rows), rng.integers(-1, vocab, (rows, 20))]
    return [
        *normal((rows, vocab))(rng),
        upload(rng.uniform(0.5, 2, rows), "float32"),
        upload(rng.uniform(0.5, 1, rows), "float32"),
        upload(rng.uniform(1, 2, rows), "float32"),
        *(upload(x, "int32") for x in integers),
        upload(rng.integers(0, 2**40, rows), "uint64"),
    ]


def moe(rng: np.random.Generator) -> Arrays:
    """Tokens, which are padding, router, experts, and the shared expert."""
    arrays = normal((9, 64), (6, 64), (6, 48, 64), (6, 64, 24), (32, 64), (64, 16), (1, 64), dtype="bfloat16")(rng)
    return [*arrays, upload(rng.integers(-1, 3, 9), "int32")]


def run_moe(arrays: Arrays, **more: Any) -> Any:
    return gp.moe(*arrays[:4], top_k=2, shared_expert=tuple(arrays[4:7]), ids=arrays[7], **more)


SAMPLE_NAMES = ("logits", "temperature", "top_p", "repetition_penalty", "top_k", "position", "history", "seed")


def over_cache(rng: np.random.Generator) -> Arrays:
    return [
        *normal((5, 4, 16), (3, 70, 2, 16), (3, 70, 2, 16))(rng),
        *(upload(rng.integers(0, 3, 5), "int32") for _ in "ip"),
    ]


def irope(rng: np.random.Generator) -> Arrays:
    return [
        *normal((4, 9, 16), (2, 70, 16), (2, 70, 16), dtype="bfloat16")(rng),
        upload(rng.integers(0, 20000, 9), "int32"),
    ]


MANY_COUNTS = [1, 3, 0, 2] * 5


def einsum(label: str, text: str, make: Callable[[np.random.Generator], Arrays]) -> Call:
    return Call("einsum", make, lambda arrays, **more: gp.einsum(text, *arrays, **more), label)


CALLS = [
    einsum("products", "bij,bjk,kl->lbi", normal((2, 9, 5), (2, 5, 7), (7, 4))),
    einsum("sum", "ij->j", turned((9, 7))),
    plain("tensordot", turned((4, 5, 6), (5, 6, 3))),
    plain("vecdot", normal((5, 9), (5, 9), dtype="float16")),
    plain("cross", normal((7, 3), (7, 3))),
    plain("outer", normal((7,), (9,))),
    plain("inner", normal((4, 9), (5, 9))),
    plain("dot", turned((4, 9), (9, 5))),
    plain("trace", normal((9, 7))),
    listed("concat", normal((3, 5), (4, 5))),
    listed("concat", turned((3, 5), (4, 6)), "flat", axis=None),
    listed("concat", lambda rng: [*normal((3, 5))(rng), upload(rng.integers(0, 9, (2, 5)), "int32")], "mixed"),
    listed("concatenate", normal((3, 5), (3, 2)), axis=1),
    plain("searchsorted", lambda rng: [upload(np.sort(rng.normal(size=70)), "float32"), *turned((33, 18))(rng)]),
    listed("stack", turned((3, 5), (3, 5)), axis=1),
    plain("repeat", normal((4, 5)), "counts", repeats=[2, 2, 0, 3], axis=0),
    plain("repeat", normal((20, 3)), "many counts", repeats=MANY_COUNTS, axis=0),
    plain("repeat", turned((4, 5)), "flat counts", repeats=MANY_COUNTS),
    plain("take", with_indices((7, 9), (2, 3), 9), axis=1),
    plain("take", with_indices((7, 9), (4,), 63, "int16"), "flat"),
    plain("take_along_axis", with_indices((7, 9), (7, 4), 9, "uint8"), axis=1),
    plain("gather", with_indices((7, 9), (2, 9), 7, "int32"), axis=0),
    plain("scatter", with_indices((70, 9), (200, 9), 70, values="int32"), axis=0),
    plain("scatter", with_indices((7, 9), (7, 4), 9, "int8", values="float32"), "few", axis=1),
    plain("layernorm", normal((6, 100), (100,), (100,))),
    plain("layernorm", turned((6, 100), (100,), (100,), dtype="float16"), "turned"),
    plain("rmsnorm", normal((6, 100), (100,), dtype="bfloat16")),
    plain("rmsnorm_residual", normal((6, 100), (6, 100), (100,), dtype="bfloat16")),
    plain("rmsnorm_residual", turned((6, 100), (6, 100), (100,)), "turned"),
    plain("layernorm_residual", normal((6, 104), (6, 104), (104,), (104,), dtype="float16")),
    plain("snake", normal((2, 5, 33), (5,))),
    plain("embedding", with_indices((7, 9), (2, 3), 7)),
    plain("embedding", with_indices((70, 64), (5,), 70, "int32"), "wide"),
    plain("group_norm", normal((2, 6, 40), (6,), (6,)), num_groups=3),
    plain("group_norm", turned((2, 6, 4, 5), (6,), (6,), dtype="bfloat16"), "turned", num_groups=2),
    plain("group_norm_silu", normal((2, 6, 40), (6,), (6,), dtype="float16"), num_groups=3),
    plain("instance_norm", normal((2, 6, 40))),
    plain("adain", turned((2, 6, 40), (2, 6), (2, 6))),
    plain("adain_leaky_relu", turned((2, 6, 40), (2, 6), (2, 6), dtype="float16"), slope=0.2),
    plain("adain_snake", normal((2, 6, 40), (2, 6), (2, 6), (6,), dtype="bfloat16")),
    plain("adaln", normal((2, 9, 40), (2, 40), (2, 40), dtype="bfloat16")),
    plain("adaln_zero", normal((2, 9, 40), (2, 40), (2, 40), (2, 40), (2, 9, 40))),
    plain("conv1d", normal((2, 6, 40), (9, 6, 3), (9,)), padding=1, activation="gelu"),
    plain("conv1d", turned((2, 6, 40), (8, 3, 5), dtype="bfloat16"), "turned", groups=2, stride=3),
    plain("conv_transpose1d", normal((2, 6, 40), (6, 9, 4), (9,)), stride=2, output_padding=1),
    plain("conv1d", normal((2, 40, 41), (9, 40, 3), (9,), dtype="float16"), "16 bits", padding=1, activation="silu"),
    plain("conv_transpose1d", normal((2, 16, 40), (16, 9, 4), (9,), dtype="bfloat16"), "16 bits", stride=2),
    plain("conv2d", normal((2, 6, 9, 11), (9, 6, 3, 3), (9,), dtype="float16"), padding=(1, 2)),
    plain("attention", normal((2, 9, 4, 16), (2, 70, 2, 16), (2, 70, 2, 16), dtype="bfloat16"), causal=True),
    plain("attention", turned((2, 9, 4, 16), (2, 7, 4, 16), (2, 7, 4, 16)), "turned"),
    Call("attention", float8_arrays, float8_attention, "float8"),
    plain("sdpa_causal", normal((4, 9, 16), (2, 70, 16), (2, 70, 16))),
    plain("cross_attention", normal((4, 9, 16), (2, 70, 16), (2, 70, 16))),
    Call("sdpa_irope", irope, lambda arrays, **more: gp.sdpa_irope(*arrays, 0.5, 8.0, 61, **more)),
    Call("irope_scale_q", irope, lambda arrays, **more: gp.irope_scale_q(arrays[0].transpose(1, 0, 2), arrays[3], **more)),
    Call("attention_over_cache", over_cache, lambda arrays, **more: gp.attention_over_cache(*arrays, **more)),
    plain("causal_conv1d", normal((2, 6, 9), (6, 4), (6,))),
    plain("selective_scan", normal((2, 6, 9), (2, 6, 9), (6, 4), (2, 4, 9), (2, 4, 9), (6,)), delta_softplus=True),
    plain("lstm_forward", normal((2, 7, 5), (32, 5), (32, 8), (32,), (32,), (2, 8), (2, 8))),
    plain("lstm_forward", turned((2, 7, 5), (32, 5), (32, 8), dtype="bfloat16"), "turned", reverse=True),
    plain("lstm_bidirectional", normal((2, 7, 5), *2 * ((32, 5), (32, 8), (32,), (32,)))),
    plain("clip", normal((9, 9)), min=-0.5, max=0.5),
    plain("clip", normal((9, 9), (9, 1), (9,)), "arrays"),
    plain("clamp", normal((9, 9), (9,), (9, 9)), "arrays"),
    plain("clamp", lambda rng: [upload(rng.integers(0, 9, (9, 9)), "int8")], "cast", min_val=1.5, max_val=4),
    plain("add", lambda rng: [*normal((5, 7))(rng), upload(rng.integers(0, 9, (5, 7)), "int32")], "mixed"),
    plain("logical_and", normal((5, 7), (5, 1)), "floats"),
    plain("where", normal((5, 7), (5, 7), (7,)), "float condition"),
    plain("sum", lambda rng: [upload(rng.integers(0, 9, (9, 30)), "int32")], "dtype", axis=0, dtype="float32"),
    plain("sum", normal((9, 30)), "narrow dtype", axis=1, dtype="int8"),
    plain("prod", normal((9, 30)), "narrow dtype", axis=1, dtype="int16"),
    plain("cumsum", normal((9, 30)), "narrow dtype", axis=0, dtype="int8"),
    plain("sum", normal((1 << 20,)), "long"),
    plain("var", normal((3, 1 << 18), dtype="float16"), "long", axis=1),
    plain("sum", normal((1 << 17, 9)), "tall", axis=0),
    plain("argmax", lambda rng: [upload(rng.integers(0, 99, 1 << 19), "int16")], "long"),
    plain("cumsum", normal((2, 1 << 18)), "long", axis=1),
    plain("cast_f32_to_bf16", normal((9, 9))),
    plain("cast_f32_to_f16", normal((9, 9))),
    plain("cast_bf16_to_f32", normal((9, 9), dtype="bfloat16")),
    plain("cast_f16_to_f32", turned((9, 7), dtype="float16")),
    *(
        Call("quantize", make, lambda arrays, o=options, **more: gp.quantize(arrays[0], **o, **more), label)
        for label, make, options in (
            ("fp8", normal((8, 256)), {"format": "fp8_e4m3", "block": "row"}),
            ("blocks", normal((2, 3, 128, 256)), {"format": "fp8_e4m3", "block": (128, 128)}),
            ("tensor", turned((8, 256), dtype="float16"), {"format": "int8", "block": "tensor"}),
            ("int4", normal((8, 256), dtype="bfloat16"), {"format": "int4", "block": 128, "zero_point": True}),
            ("nvfp4", normal((8, 256)), {"format": "nvfp4"}),
        )
    ),
    dequantize("fp8", (8, 256), "fp8_e4m3", block="row"),
    dequantize("int4", (2, 3, 8, 256), "int4", ("zero",), block=128, zero_point=True),
    dequantize("nvfp4", (8, 256), "nvfp4", ("tensor_scale",)),
    plain("matmul", normal((33, 70), (70, 18))),
    plain("matmul", turned((33, 70), (70, 18), dtype="bfloat16"), "turned"),
    plain("matmul", lambda rng: [*normal((9, 12))(rng), *normal((12, 7), dtype="float16")(rng)], "mixed"),
    plain("matmul", normal((1, 512), (512, 64), dtype="bfloat16"), "row"),
    plain("batched_matmul", normal((3, 9, 12), (3, 12, 7))),
    plain("linear", normal((9, 64), (48, 64), (48,), dtype="bfloat16")),
    plain("linear", turned((9, 64), (48, 64), (48,), dtype="float16"), "turned", activation="gelu"),
    plain("linear_swiglu", swiglu),
    plain("linear_bias_gelu", normal((9, 64), (48, 64), (48,))),
    scaled("fp8", 9, 48, 256, "fp8_e4m3", "fp8_e4m3", block="row"),
    scaled("int4", 9, 48, 256, None, "int4", block=128),
    scaled("int4 row", 1, 48, 256, None, "int4", block=128),
    scaled("bf16 by fp8", 9, 64, 512, None, "fp8_e4m3", block="row"),
    grouped("few", 9, "bfloat16"),
    grouped("many", 300, "bfloat16"),
    Call("sample", sample, lambda arrays, **more: gp.sample(**dict(zip(SAMPLE_NAMES, arrays, strict=True)), **more)),
    plain("sample", turned((5, 300), dtype="bfloat16"), "greedy", temperature=0.0),
    plain("moe", normal((5, 64), (6, 64), (6, 48, 64), (6, 64, 24), dtype="bfloat16"), top_k=3),
    plain("moe", normal((40, 64), (6, 64), (6, 48, 64), (6, 64, 24)), "one", top_k=1, softmax_first=False),
    Call("moe", moe, run_moe, "shared expert"),
    random("normal"),
    random("uniform", dtype="float16"),
    random("randint", low=0, high=100),
]
