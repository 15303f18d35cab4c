"""Mixtures of experts, as a whole and step by step, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download, round_to, upload

import pygpukit as gp

PLAIN = ["float16", "bfloat16", "float32"]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5}
FORMATS = [
    ("fp8_e4m3", {"block": "row"}),
    ("fp8_e4m3", {"block": (128, 128)}),
    ("fp8_e5m2", {"block": "row"}),
    ("int8", {"block": "row"}),
    ("int4", {"block": 32, "zero_point": True}),
    ("nvfp4", {}),
]


def array(values, dtype):
    return gp.from_numpy(np.asarray(values, dtype))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gated(x, gate_up, down):
    gate, up = np.split(x @ gate_up.T, 2, axis=-1)
    return (silu(gate) * up) @ down.T


def reference(
    x, router, gate_up, down, top_k, softmax_first=True, normalize=True, shared=None, sigmoid_input=False, dtype="float32"
):
    logits = x @ router.T
    chosen = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    gates = softmax(logits) if softmax_first else None
    result = np.zeros_like(x)
    for token, experts in enumerate(chosen):
        if sigmoid_input:
            for e in experts:
                factor = round_to(1 / (1 + np.exp(-logits[token, e])), dtype)
                result[token] += gated(round_to(x[token] * factor, dtype), gate_up[e], down[e])
            continue
        weights = gates[token, experts] if softmax_first else softmax(logits[token, experts])
        if softmax_first and normalize:
            weights = weights / weights.sum()
        for weight, e in zip(weights, experts, strict=True):
            result[token] += weight * gated(x[token], gate_up[e], down[e])
    if shared is not None:
        extra = gated(x, *shared[:2])
        result += extra / (1 + np.exp(-x @ shared[2].T)) if len(shared) > 2 else extra
    return result


def layer(rng, dtype, tokens=7, hidden=64, width=48, experts=10):
    """Values that the dtype holds: x, router, gate_up, down."""
    shapes = [(tokens, hidden), (experts, hidden), (experts, 2 * width, hidden), (experts, hidden, width)]
    scales = [1, 0.3, hidden**-0.5, width**-0.5]
    return [round_to(rng.normal(size=s) * by, dtype) for s, by in zip(shapes, scales, strict=True)]


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": False},
        {"softmax_first": False},
        {"softmax_first": False, "normalize": False},
        {"sigmoid_input": True},
    ],
    ids=str,
)
def test_moe(device, rng, dtype, options):
    for tokens, top_k in [(1, 2), (7, 1), (70, 3), (3, 10)]:
        values = layer(rng, dtype, tokens)
        expected = reference(*values, top_k, **options, dtype=dtype)
        arrays = [upload(v, dtype) for v in values]
        got = gp.moe(*arrays, top_k, **options)
        assert got.dtype.name == dtype and got.shape == expected.shape
        np.testing.assert_allclose(download(got), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        out = gp.full((tokens, 128), 7, dtype=dtype)
        view = out[:, ::2]
        assert gp.moe(*arrays, top_k, **options, out=view) is view
        np.testing.assert_array_equal(download(view), download(got))
        assert (download(out[:, 1::2]) == 7).all()
    assert gp.moe(arrays[0][:0], *arrays[1:], 2).shape == (0, 64)


@pytest.mark.parametrize("gate", [False, True])
def test_shared_expert(device, rng, gate):
    values = layer(rng, "float32")
    shared = [rng.normal(size=s).astype(np.float32) * 0.2 for s in ((60, 64), (64, 30), (1, 64))[: 3 if gate else 2]]
    expected = reference(*values, 2, shared=shared)
    given = tuple(gp.Weight(gp.from_numpy(s)) for s in shared)
    got = gp.moe(*(upload(v, "float32") for v in values), 2, shared_expert=given)
    np.testing.assert_allclose(download(got), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format, block", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_quantised_experts(device, rng, dtype, format, block):
    values = layer(rng, dtype, tokens=5, hidden=256, width=128, experts=4)
    codes = [gp.quantize(upload(v, "float32"), format, **block) for v in values[2:]]
    names = ("zero",) if block.get("zero_point") else ("tensor_scale",) if format == "nvfp4" else ()
    parts = [dict(zip(names, c[2:], strict=True)) for c in codes]
    weights = [gp.ExpertWeights(*c[:2], **p) for c, p in zip(codes, parts, strict=True)]
    dense = [download(gp.dequantize(*c[:2], **p)) for c, p in zip(codes, parts, strict=True)]
    router = gp.Weight.quantize(upload(values[1], "float32"), "fp8_e4m3", block="row")
    expected = reference(values[0], download(router.dense("float32")), *dense, 2)
    got = gp.moe(upload(values[0], dtype), router, *weights, 2)
    np.testing.assert_allclose(download(got), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert all(w.is_quantized for w in weights) and weights[0].shape == (4, 256, 256)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_each_expert_has_its_tensor_scale(device, rng, dtype):
    """nvfp4 of experts whose numbers are of different sizes, quantised one by one."""
    values = layer(rng, dtype, tokens=9, hidden=64, width=32, experts=5)
    for part in values[2:]:
        part *= (4.0 ** np.arange(-2, 3))[:, None, None]
    each = [[gp.Weight.quantize(upload(v, "float32"), "nvfp4") for v in part] for part in values[2:]]
    weights = [gp.ExpertWeights.stack(e) for e in each]
    assert weights[0].tensor_scale.shape == (5,)
    assert len({float(s) for s in weights[0].tensor_scale.to_numpy()}) == 5
    dense = [np.stack([download(w.dense("float32")) for w in e]) for e in each]
    expected = reference(*values[:2], *dense, 2)
    got = gp.moe(upload(values[0], dtype), upload(values[1], dtype), *weights, 2)
    # Gates of experts of very different sizes: what is small beside the largest is as exact as that is.
    np.testing.assert_allclose(download(got), expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())
    ids = array([4, 0, -1, 3, 3, 1, 2, 0, 4], "int32")
    parts = weights[0]
    rows = gp.grouped_matmul(
        upload(values[0], dtype), parts.data, ids, scale_b=parts.scale, tensor_scale_b=parts.tensor_scale
    )
    wanted = [values[0][i] @ dense[0][e].T if e >= 0 else np.zeros(64) for i, e in enumerate(ids.to_numpy())]
    np.testing.assert_allclose(download(rows), wanted, rtol=0, atol=TOLERANCE[dtype] * np.abs(wanted).max())
    with pytest.raises(ValueError, match=r"tensor_scale must be one number, or one for each expert"):
        gp.ExpertWeights(parts.data, parts.scale, tensor_scale=parts.tensor_scale[:3])
    with pytest.raises(ValueError, match="tensor_scale must be one number"):
        gp.dequantize(parts.data, parts.scale, tensor_scale=parts.tensor_scale)


def test_expert_weights(device, rng):
    values = rng.normal(size=(3, 8, 32)).astype(np.float32)
    plain = gp.ExpertWeights(gp.from_numpy(values))
    assert plain.shape == (3, 8, 32) and plain.nbytes == values.nbytes and not plain.is_quantized
    stacked = gp.ExpertWeights.stack([gp.Weight(gp.from_numpy(v)) for v in values])
    np.testing.assert_array_equal(stacked.data.to_numpy(), values)
    each = [gp.Weight.quantize(gp.from_numpy(v), "int8", block="row") for v in values]
    stacked = gp.ExpertWeights.stack(each)
    codes, scale = gp.quantize(gp.from_numpy(values), "int8", block="row")
    np.testing.assert_array_equal(stacked.data.to_numpy(), codes.to_numpy())
    np.testing.assert_array_equal(stacked.scale.to_numpy(), scale.to_numpy())
    assert repr(stacked).startswith("ExpertWeights([3, 8, 32], int8, ")
    with pytest.raises(ValueError, match=r"ExpertWeights: matrices must be \[experts, n, k\]"):
        gp.ExpertWeights(gp.zeros((3, 8)))
    with pytest.raises(gp.errors.DTypeError, match="matrices must have dtype float16"):
        gp.ExpertWeights(gp.zeros((3, 8, 8), dtype="float64"))
    with pytest.raises(ValueError, match="have shape"):
        gp.ExpertWeights.stack([gp.Weight(gp.zeros((8, 8))), gp.Weight(gp.zeros((8, 16)))])
    with pytest.raises(ValueError, match="one weight or more"):
        gp.ExpertWeights.stack([])
    with pytest.raises(TypeError, match="must be Weights"):
        gp.ExpertWeights.stack([gp.zeros((8, 8))])


@pytest.mark.parametrize("sigmoid_input", [False, True])
@pytest.mark.parametrize("dtype", PLAIN)
def test_a_token_does_not_depend_on_its_batch(device, rng, dtype, sigmoid_input):
    values = layer(rng, dtype, tokens=90)
    arrays = [upload(v, dtype) for v in values]
    shared = tuple(upload(rng.normal(size=s), dtype) for s in ((60, 64), (64, 30), (1, 64)))
    with gp.determinism("batch_invariant"):
        whole = download(gp.moe(*arrays, 3, shared_expert=shared, sigmoid_input=sigmoid_input))
        for token in (0, 41, 89):
            alone = gp.moe(arrays[0][token : token + 1], *arrays[1:], 3, shared_expert=shared, sigmoid_input=sigmoid_input)
            np.testing.assert_array_equal(download(alone)[0], whole[token])
    whole = download(gp.moe(*arrays, 3, shared_expert=shared, sigmoid_input=sigmoid_input))
    ids = np.zeros(90, np.int32)
    ids[[3, 50, 89]] = -1
    arrays[0][3] = float("nan")
    padded = download(gp.moe(*arrays, 3, shared_expert=shared, sigmoid_input=sigmoid_input, ids=gp.from_numpy(ids)))
    gp.synchronize()  # no bad index
    assert (padded[ids < 0] == 0).all()
    np.testing.assert_array_equal(padded[ids == 0], whole[ids == 0])


def test_ties(device):
    router = gp.zeros((4, 8))
    experts = gp.from_numpy(np.arange(4, dtype=np.float32).repeat(16 * 8).reshape(4, 16, 8))
    down = gp.from_numpy(np.ones((4, 8, 8), np.float32))
    got = gp.moe(gp.ones((1, 8)), router, experts, down, 2)
    # Experts 0 and 1, with gates of a half: the first gives 0.
    expected = 0.5 * silu(np.float64(8)) * 8 * 8
    np.testing.assert_allclose(got.to_numpy(), np.full((1, 8), expected), rtol=1e-6)


@pytest.mark.parametrize("dtype", PLAIN)
def test_topk(device, rng, dtype):
    for tokens, experts, k in [(1, 1, 1), (5, 8, 2), (33, 128, 8), (3, 300, 300)]:
        logits = round_to(np.round(rng.normal(size=(tokens, experts)) * 4) / 2, dtype)  # many ties
        logits[0, 0] = np.nan
        order = np.argsort(-np.where(np.isnan(logits), -np.inf, logits), axis=1, kind="stable")
        if experts > 1:
            order[0] = [e for e in order[0] if e != 0] + [0]
        values = gp.zeros((tokens, 2 * k), dtype=dtype)[:, ::2]
        indices = gp.zeros((k, tokens), dtype="int32").T
        assert gp.moe_topk_with_indices(upload(logits, dtype), values, indices, k) is None
        np.testing.assert_array_equal(indices.to_numpy(), order[:, :k])
        np.testing.assert_array_equal(download(values), np.take_along_axis(logits, order[:, :k], 1))
    with pytest.raises(ValueError, match="have shape"):
        gp.moe_topk_with_indices(upload(logits, dtype), values, indices, k - 1)
    with pytest.raises(ValueError, match="shares memory"):
        whole = upload(logits, dtype)
        gp.moe_topk_with_indices(whole, whole, indices, k)


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("tokens, experts, k", [(1, 4, 2), (37, 8, 3), (200, 70, 2), (0, 4, 2)])
def test_steps_of_0_2(device, rng, dtype, tokens, experts, k):
    width, rows = 40, tokens * k
    hidden = round_to(rng.normal(size=(tokens, width)), dtype)
    ids = rng.integers(-1, experts, (tokens, k)).astype(np.int32)
    counts, offsets = gp.zeros((experts,), dtype="int32"), gp.zeros((experts + 1,), dtype="int32")
    permute, reverse = gp.zeros((rows,), dtype="int32"), gp.zeros((rows,), dtype="int32")
    gp.moe_compute_permutation(gp.from_numpy(ids), counts, offsets, permute, reverse, experts, k)
    flat = np.where(ids.ravel() < 0, experts, ids.ravel())
    order = np.argsort(flat, kind="stable")
    expected_counts = np.bincount(flat, minlength=experts + 1)[:experts]
    np.testing.assert_array_equal(counts.to_numpy(), expected_counts)
    np.testing.assert_array_equal(offsets.to_numpy(), np.concatenate([[0], np.cumsum(expected_counts)]))
    np.testing.assert_array_equal(permute.to_numpy(), order)
    np.testing.assert_array_equal(reverse.to_numpy(), np.argsort(order))
    row_ids = gp.zeros((rows,), dtype="int32")
    gp.moe_expand_expert_offsets(offsets, row_ids, experts)
    np.testing.assert_array_equal(row_ids.to_numpy(), np.where(flat[order] == experts, -1, flat[order]))
    gathered = gp.zeros((rows, width), dtype=dtype)
    gp.moe_gather(upload(hidden, dtype), permute, gathered, k)
    np.testing.assert_array_equal(download(gathered), hidden[order // k])
    weights = round_to(rng.normal(size=(tokens, k)), dtype)
    values = upload(weights, dtype)
    output = gp.zeros((tokens, width), dtype=dtype)
    gp.moe_scatter(gathered, values, reverse, output, k)
    expected = hidden * weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(download(output), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    if tokens:
        gp.moe_softmax_topk(values, k)
        np.testing.assert_allclose(download(values), softmax(weights), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_bad_experts_are_faults(device):
    counts, offsets = gp.zeros((2,), dtype="int32"), gp.zeros((3,), dtype="int32")
    permute, reverse = gp.zeros((3,), dtype="int32"), gp.zeros((3,), dtype="int32")
    gp.moe_compute_permutation(array([[2], [1], [0]], "int32"), counts, offsets, permute, reverse, 2, 1)
    with pytest.raises(IndexError, match="moe_compute_permutation: index 2 is out of range"):
        gp.synchronize()
    assert permute.to_numpy().tolist() == [2, 1, 0]
    output = gp.zeros((1, 2))
    gp.moe_scatter(gp.ones((2, 2)), gp.ones((1, 2)), array([1, 7], "int32"), output, 2)
    with pytest.raises(IndexError, match="moe_scatter: index 7"):
        gp.synchronize()
    assert output.to_numpy().tolist() == [[1, 1]]


def test_arguments_are_checked(device, rng):
    x, router, gate_up, down = (upload(v, "float32") for v in layer(rng, "float32"))
    with pytest.raises(ValueError, match=r"moe: router must be \[10, 64\]"):
        gp.moe(x, gp.zeros((10, 63)), gate_up, down, 2)
    with pytest.raises(ValueError, match=r"moe: down must be \[10, 64, 48\]"):
        gp.moe(x, router, gate_up, gp.zeros((10, 64, 47)), 2)
    with pytest.raises(ValueError, match="moe: gate_up must have an even number of rows"):
        gp.moe(x, router, gp.zeros((10, 95, 64)), down, 2)
    for k in (0, 11):
        with pytest.raises(ValueError, match="moe: top_k must be 1 to 10"):
            gp.moe(x, router, gate_up, down, k)
    with pytest.raises(gp.errors.DTypeError, match="moe: gate_up must have dtype float32"):
        gp.moe(x, router, gate_up.astype("float16"), down, 2)
    with pytest.raises(gp.errors.DTypeError, match="moe: x must have dtype float16"):
        gp.moe(x.astype("float64"), router, gate_up, down, 2)
    with pytest.raises(ValueError, match="moe: shared_expert must be"):
        gp.moe(x, router, gate_up, down, 2, shared_expert=(router,))
    with pytest.raises(ValueError, match=r"moe: ids must have shape \[7\]"):
        gp.moe(x, router, gate_up, down, 2, ids=gp.zeros((8,), dtype="int32"))


@pytest.mark.parametrize("experts, rows", [(1, 1), (3, 33), (5, 1000), (40, 4096), (300, 700), (2, 0), (8, 140_000)])
def test_rows_by_expert(device, rng, experts, rows):
    """Stable: the rows of one expert stay in order, those without one come last."""
    ids = rng.integers(-1, experts, rows).astype(np.int32)
    if rows > 30:
        ids[: rows // 3] = experts - 1
    counts, offsets = gp.full((experts,), 9, dtype="int32"), gp.full((experts + 1,), 9, dtype="int32")
    permute, reverse = gp.full((rows,), 9, dtype="int32"), gp.full((rows,), 9, dtype="int32")
    gp.moe_compute_permutation(gp.from_numpy(ids), counts, offsets, permute, reverse, experts, 1)
    order = np.argsort(np.where(ids < 0, experts, ids), kind="stable")
    tally = np.bincount(ids[ids >= 0], minlength=experts)
    np.testing.assert_array_equal(counts.to_numpy(), tally)
    np.testing.assert_array_equal(offsets.to_numpy(), [0, *np.cumsum(tally)])
    np.testing.assert_array_equal(permute.to_numpy(), order)
    np.testing.assert_array_equal(reverse.to_numpy()[order], np.arange(rows))


def test_gather_is_named(device):
    gathered = gp.zeros((2, 4))
    gp.moe_gather(gp.zeros((2, 4)), array([0, 2], np.int32), gathered, 1)
    with pytest.raises(IndexError, match="^moe_gather: index 2 is out of range"):
        gp.synchronize()


@pytest.mark.parametrize("dtype", PLAIN)
def test_hostile_values(device, rng, dtype):
    """NaN logits come last, ties go to the lowest expert, and what a token holds stays in its own row."""
    x, router, gate_up, down = layer(rng, dtype, tokens=6, experts=5)
    arrays = [upload(v, dtype) for v in (x, router, gate_up, down)]
    clean = download(gp.moe(*arrays, 2))
    for value in (np.nan, np.inf, -np.inf):
        dirty = x.copy()
        dirty[3, 7] = value
        got = download(gp.moe(upload(dirty, dtype), *arrays[1:], 2))
        rest = [0, 1, 2, 4, 5]
        np.testing.assert_array_equal(got[rest], clean[rest])
        assert np.isnan(got[3]).all()
    logits = np.array([[np.nan, 1, 2, 2, -np.inf], [np.inf, 3, np.inf, 1, 0], [np.nan] * 5, [-np.inf] * 5])
    values, indices = gp.zeros((4, 3), dtype=dtype), gp.zeros((4, 3), dtype="int32")
    gp.moe_topk_with_indices(upload(logits, dtype), values, indices, 3)
    np.testing.assert_array_equal(indices.to_numpy(), [[2, 3, 1], [0, 2, 1], [0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(download(values)[:2], [[2, 2, 1], [np.inf, np.inf, 3]])
    rows = upload(np.full((2, 4), {"float16": 6e4}.get(dtype, 3e38)), dtype)
    out = gp.zeros((1, 4), dtype=dtype)
    gp.moe_scatter(rows, gp.from_numpy(np.array([[2, 0.0]], np.float32)), array([0, 1], np.int32), out, 2)
    assert np.isinf(download(out)).all()
