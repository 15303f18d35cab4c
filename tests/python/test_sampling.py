"""Tokens drawn from logits: what may be drawn, how often, and that nothing else decides."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import round_to, upload

import pygpukit as gp

DTYPES = ["float16", "bfloat16", "float32"]


def array(values, dtype):
    return gp.from_numpy(np.asarray(values, dtype))


def tokens(result):
    return result.to_numpy().tolist()


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def kept(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """Probabilities after the cuts, in float64."""
    x = np.asarray(logits, np.float64)
    order = np.argsort(-x, kind="stable")
    chosen = order[:top_k] if 0 < top_k < len(x) else order
    p = softmax(x[chosen] / temperature)
    if top_p < 1:
        count = int(np.searchsorted(np.cumsum(p), top_p)) + 1
        chosen, p = chosen[:count], p[:count]
    left = p >= min(min_p, 1) * p[0]
    result = np.zeros(len(x))
    result[chosen[left]] = p[left] / p[left].sum()
    return result


def draws(logits, count, **options):
    """The tokens of one row for `count` numbers spread evenly over [0, 1)."""
    rows = gp.broadcast_to(array(logits, "float32"), (count, len(logits)))
    uniform = (np.arange(count) + 0.5) / count
    return gp.sample(rows, uniform=array(uniform, "float32"), **options).to_numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 31), (3, 1025), (2, 152064)])
def test_greedy_is_argmax(device, rng, dtype, shape):
    x = round_to(rng.normal(size=shape) * 3, dtype)
    x[:, -1] = x[:, 0] = np.maximum(x.max(axis=1), 1.0)  # a tie
    got = gp.sample(upload(x, dtype), temperature=0.0)
    assert got.dtype.name == "int32" and tokens(got) == [0] * shape[0]
    assert tokens(gp.sample(upload(-x, dtype), temperature=1e-7)) == np.argmax(-x, axis=1).tolist()
    one = gp.sample(upload(x[0], dtype), temperature=0)
    assert one.shape == () and one.item() == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.25},
        {"temperature": 4.0},
        {"top_k": 1},
        {"top_k": 7},
        {"top_k": 64},
        {"top_p": 0.3},
        {"top_p": 0.999},
        {"top_p": 1e-9},
        {"top_p": 0.0},
        {"min_p": 0.2},
        {"min_p": 5.0},
        {"top_k": 9, "top_p": 0.6, "min_p": 0.05, "temperature": 1.5},
    ],
    ids=str,
)
def test_cuts_and_shares(device, rng, options):
    x = rng.normal(size=50).astype(np.float32) * 2
    expected = kept(x, **options)
    count = 4096
    got = np.bincount(draws(x, count, **options), minlength=50) / count
    # Numbers spread evenly meet each token as often as its share says, but for one at either end.
    np.testing.assert_allclose(got, expected, atol=2.5 / count)
    assert (np.asarray(expected)[got > 0] > 0).all()


def test_the_token_that_crosses_p_stays(device):
    x = np.log([0.5, 0.25, 0.125, 0.125])
    for p, support in [(0.49, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.76, 3), (0.874, 3), (0.88, 4), (1.0, 4)]:
        # Logarithms are rounded: at exactly 0.5 the first token may lack the last bit.
        got = set(draws(x, 64, top_p=p - 1e-6).tolist())
        assert got == set(range(support)), p


def test_equal_logits(device):
    x = np.zeros(40)
    assert np.array_equal(np.bincount(draws(x, 4000), minlength=40), np.full(40, 100))
    assert set(draws(x, 400, top_k=3).tolist()) == {0, 1, 2}
    assert set(draws(x, 400, top_p=0.125).tolist()) == {0, 1, 2, 3, 4}
    assert set(draws(x, 400, top_k=20, top_p=0.5).tolist()) == set(range(10))
    x[7:] = -0.0
    x[30] = 1.0
    assert set(draws(x, 400, top_k=3).tolist()) == {30, 0, 1}


def test_rows_that_are_not_numbers(device):
    inf, nan = np.inf, np.nan
    x = np.array([[-inf] * 4, [1, nan, 2, 0], [-inf, -inf, 3, -inf], [inf, 0, inf, -inf], [nan] * 4, [-1, 0, 1, 2]])
    logprobs, ids, top = gp.zeros((6,)), gp.zeros((6, 3), dtype="int32"), gp.zeros((6, 3))
    for temperature in (0.0, 1.0):
        got = gp.sample(
            array(x, "float32"),
            temperature,
            uniform=array([0.9] * 6, "float32"),
            logprobs=logprobs,
            top_ids=ids,
            top_logprobs=top,
        )
        assert tokens(got) == [-1, -1, 2, 2 if temperature else 0, -1, 3]
        expected = [nan, nan, 0, -np.log(2), nan, 2 - np.log(np.exp([-1, 0, 1, 2]).sum())]
        np.testing.assert_allclose(logprobs.to_numpy(), expected, rtol=1e-6)
        assert tokens(ids) == [[-1] * 3, [-1] * 3, [2, 0, 1], [0, 2, 1], [-1] * 3, [3, 2, 1]]
        assert np.isnan(top.to_numpy()[[0, 1, 4]]).all()
        np.testing.assert_allclose(top.to_numpy()[2:4], [[0, -inf, -inf], [-np.log(2), -np.log(2), -inf]], rtol=1e-6)
    # NaN that is not allowed does not count; -inf bias takes everything away.
    allowed = array([[True, False, True, True]], "bool")
    assert tokens(gp.sample(array(x[1:2], "float32"), 0.0, allowed=allowed)) == [2]
    gone = {"bias_ids": array([[0, 1, 2, 3]], "int32"), "bias_values": array([[-inf] * 4], "float32")}
    assert tokens(gp.sample(array(x[5:], "float32"), 0.0, **gone)) == [-1]


def test_a_million_draws(device, rng):
    x = rng.normal(size=24).astype(np.float32) * 2
    count = 1_000_000
    rows = gp.broadcast_to(array(x, "float32"), (count, len(x)))
    observed = np.bincount(gp.sample(rows, 0.8, seed=11).to_numpy(), minlength=len(x))
    expected = kept(x, temperature=0.8) * count
    # 23 degrees of freedom: above 62 once in 20 000 seeds.
    assert ((observed - expected) ** 2 / expected).sum() < 62
    # Draws of neighbours and of neighbouring positions are independent: pairs of them, too.
    first = gp.sample(rows[:100_000, :3], 0.8, seed=11, position=1).to_numpy()
    second = gp.sample(rows[:100_000, :3], 0.8, seed=11, position=2).to_numpy()
    p = kept(x[:3], temperature=0.8)
    for left, right in ((first, second), (first[:-1], first[1:])):
        pairs, expected = np.bincount(left * 3 + right, minlength=9), np.outer(p, p).ravel() * len(left)
        assert ((pairs - expected) ** 2 / expected).sum() < 37  # 8 degrees of freedom


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_probabilities_after_penalties(device, rng, dtype):
    rows, vocab, length = 5, 97, 40
    x = round_to(rng.normal(size=(rows, vocab)) * 3, dtype)
    history = rng.integers(-1, vocab, (rows, length))
    lengths, prompts = np.array([0, 40, 17, 99, 5]), np.array([0, 12, 17, 1, 0])
    numbers = {
        "repetition_penalty": rng.uniform(0.8, 1.7, rows).astype(np.float32),
        "frequency_penalty": rng.uniform(-0.5, 1, rows).astype(np.float32),
        "presence_penalty": rng.uniform(-0.5, 1, rows).astype(np.float32),
    }
    bias_ids = rng.integers(-1, vocab, (rows, 6))
    bias_ids[:, 1] = bias_ids[:, 0]
    bias_values = rng.normal(size=(rows, 6)).astype(np.float32)
    allowed = rng.random((rows, vocab)) < 0.8
    expected = x.astype(np.float64)
    for r in range(rows):
        seen = history[r, : lengths[r]]
        for token in set(seen[seen >= 0]):
            times = np.count_nonzero(seen[prompts[r] :] == token)
            logit, by = expected[r, token], numbers["repetition_penalty"][r]
            logit = logit / by if logit > 0 else logit * by
            minus = numbers["frequency_penalty"][r] * times + numbers["presence_penalty"][r] * (times > 0)
            expected[r, token] = logit - minus
        np.add.at(expected[r], bias_ids[r][bias_ids[r] >= 0], bias_values[r][bias_ids[r] >= 0])
    expected[~allowed] = -np.inf
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))

    top_ids, top, logprobs = gp.zeros((rows, vocab), dtype="int32"), gp.zeros((rows, vocab)), gp.zeros((rows,))
    bits = np.packbits(np.pad(allowed, ((0, 0), (0, 31))), axis=1, bitorder="little")
    for mask in (array(allowed, "bool"), gp.from_numpy(bits.view(np.int32)[:, :4].copy())):
        got = gp.sample(
            upload(x, dtype),
            history=array(history, "int32"),
            history_lengths=array(lengths, "int32"),
            prompt_lengths=array(prompts, "int32"),
            bias_ids=array(bias_ids, "int32"),
            bias_values=gp.from_numpy(bias_values),
            allowed=mask,
            seed=5,
            logprobs=logprobs,
            top_ids=top_ids,
            top_logprobs=top,
            **{name: gp.from_numpy(value) for name, value in numbers.items()},
        ).to_numpy()
        ids = top_ids.to_numpy()
        assert (np.sort(ids, axis=1) == np.arange(vocab)).all()
        np.testing.assert_allclose(top.to_numpy(), np.take_along_axis(expected, ids, 1), rtol=3e-6, atol=3e-6)
        assert (top.to_numpy()[:, 1:] <= top.to_numpy()[:, :-1]).all()
        np.testing.assert_allclose(
            logprobs.to_numpy(), np.take_along_axis(expected, got[:, None], 1)[:, 0], rtol=3e-6, atol=3e-6
        )
        assert allowed[np.arange(rows), got].all()


def test_one_mask_for_all_rows(device, rng):
    x = array(rng.normal(size=(6, 100)), "float32")
    mask = np.zeros(100, bool)
    mask[[3, 64, 99]] = True
    expected = [(3, 64, 99)[i] for i in np.argmax(x.to_numpy()[:, [3, 64, 99]], axis=1)]
    bits = np.packbits(np.pad(mask, (0, 28)), bitorder="little").view(np.uint32)
    assert tokens(gp.sample(x, 0.0, allowed=gp.from_numpy(mask))) == expected
    assert tokens(gp.sample(x, 0.0, allowed=gp.from_numpy(bits.copy()))) == expected


def numbers_of_rows(rng, rows, vocab):
    return {
        "temperature": array(np.where(np.arange(rows) % 5 == 0, 0, rng.uniform(0.3, 2, rows)), "float32"),
        "top_k": array(rng.integers(0, 30, rows), "int32"),
        "top_p": array(rng.uniform(0.3, 1.2, rows), "float32"),
        "min_p": array(rng.uniform(0, 0.1, rows), "float32"),
        "repetition_penalty": array(rng.uniform(1, 1.5, rows), "float32"),
        "frequency_penalty": array(rng.uniform(0, 0.5, rows), "float32"),
        "presence_penalty": array(rng.uniform(0, 0.5, rows), "float32"),
        "history": array(rng.integers(-1, vocab, (rows, 20)), "int32"),
        "history_lengths": array(rng.integers(0, 21, rows), "int32"),
        "prompt_lengths": array(rng.integers(0, 9, rows), "int32"),
        "bias_ids": array(rng.integers(-1, vocab, (rows, 3)), "int32"),
        "bias_values": array(rng.normal(size=(rows, 3)), "float32"),
        "allowed": array(rng.random((rows, vocab)) < 0.9, "bool"),
        "seed": array(rng.integers(0, 2**63, rows), "uint64"),
        "position": array(rng.integers(0, 5000, rows), "int32"),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_does_not_depend_on_its_batch(device, rng, dtype):
    rows, vocab = 33, 517
    x = upload(rng.normal(size=(rows, vocab)) * 2, dtype)
    given = numbers_of_rows(rng, rows, vocab)
    whole = tokens(gp.sample(x, **given))
    assert len(set(whole)) > 10
    for row in range(rows):
        alone = gp.sample(x[row : row + 1], **{name: value[row : row + 1] for name, value in given.items()})
        assert tokens(alone) == whole[row : row + 1]
    backward = {name: value[::-1] for name, value in given.items()}
    assert tokens(gp.sample(x[::-1], **backward)) == whole[::-1]
    wide = gp.zeros((vocab, 2 * rows), dtype=dtype)
    wide[:, ::2] = x.T
    out = gp.full((2 * rows,), 7, dtype="int32")
    assert tokens(gp.sample(wide.T[::2], **given, out=out[1::2])) == whole
    assert tokens(out[::2]) == [7] * rows
    threads = gp.num_threads()
    try:
        gp.set_num_threads(1)
        assert tokens(gp.sample(x, **given)) == whole
    finally:
        gp.set_num_threads(threads)


def test_replays_take_new_numbers(device, rng):
    rows, vocab = 9, 300
    x = array(rng.normal(size=(rows, vocab)), "float32")
    given = numbers_of_rows(rng, rows, vocab)
    results = {
        "out": gp.zeros((rows,), dtype="int32"),
        "logprobs": gp.zeros((rows,)),
        "top_ids": gp.zeros((rows, 5), dtype="int32"),
        "top_logprobs": gp.zeros((rows, 5)),
    }
    graph = gp.CudaGraph()
    with graph.capture():
        gp.sample(x, **given, **results)
    for seed in (1, 2):
        fresh = np.random.default_rng(seed)
        for name, value in numbers_of_rows(fresh, rows, vocab).items():
            gp.copy_to(value, given[name])
        gp.copy_to(array(fresh.normal(size=(rows, vocab)), "float32"), x)
        graph.replay()
        replayed = {name: value.to_numpy() for name, value in results.items()}
        eager = {name: gp.zeros(value.shape, dtype=value.dtype) for name, value in results.items()}
        gp.sample(x, **given, **eager)
        for name, value in replayed.items():
            np.testing.assert_array_equal(value, eager[name].to_numpy())
    with pytest.raises(RuntimeError, match="sample"), gp.CudaGraph().capture():
        gp.sample(x, out=results["out"])


def test_seeds(device, rng):
    x = array(rng.normal(size=(64, 50)), "float32")
    first = tokens(gp.sample(x, seed=3))
    assert tokens(gp.sample(x, seed=3)) == first != tokens(gp.sample(x, seed=4))
    assert tokens(gp.sample(x, seed=3, position=1)) != first
    gp.set_sampling_seed(9)
    one, two = tokens(gp.sample(x)), tokens(gp.sample(x))
    gp.set_sampling_seed(9)
    assert tokens(gp.sample(x)) == one != two == tokens(gp.sample(x))
    gp.random.seed(5)
    expected = gp.random.get_state()
    gp.sample(x)
    assert gp.random.get_state() == expected


def test_bad_ids_are_faults(device):
    x = array([[0, 1, 2, 3]], "float32")
    for name, lists in (
        ("history", {"history": array([[1, 4, -7]], "int32")}),
        ("bias", {"bias_ids": array([[4, 1]], "int32"), "bias_values": array([[9, 0]], "float32")}),
    ):
        got = gp.sample(x, 0.0, **lists)
        with pytest.raises(IndexError, match="sample: index 4 is out of range"):
            gp.synchronize()
        assert tokens(got) == [3], name


def test_arguments_are_checked(device):
    x = gp.zeros((2, 8))
    with pytest.raises(gp.errors.DTypeError, match="sample: logits must have dtype float16, bfloat16 or float32"):
        gp.sample(gp.zeros((2, 8), dtype="float64"))
    with pytest.raises(ValueError, match=r"sample: logits must be \[rows, vocab\] or \[vocab\]"):
        gp.sample(gp.zeros((2, 2, 8)))
    with pytest.raises(ValueError, match="sample: logits must have 1 to"):
        gp.sample(gp.zeros((2, 0)))
    with pytest.raises(ValueError, match=r"sample: top_p must have shape \[2\], got \[3\]"):
        gp.sample(x, top_p=gp.zeros((3,)))
    with pytest.raises(gp.errors.DTypeError, match="sample: seed must have dtype uint64"):
        gp.sample(x, seed=gp.zeros((2,), dtype="int64"))
    with pytest.raises(ValueError, match="sample: position must stand beside a seed"):
        gp.sample(x, position=3)
    with pytest.raises(ValueError, match="sample: history must be there"):
        gp.sample(x, history_lengths=gp.zeros((2,), dtype="int32"))
    with pytest.raises(ValueError, match="sample: bias_values must be there"):
        gp.sample(x, bias_ids=gp.zeros((2, 1), dtype="int32"))
    with pytest.raises(gp.errors.DTypeError, match="sample: allowed must have dtype bool"):
        gp.sample(x, allowed=gp.zeros((2, 8)))
    with pytest.raises(ValueError, match=r"sample: allowed must have shape \[2, 1\]"):
        gp.sample(x, allowed=gp.zeros((2, 8), dtype="int32"))
    with pytest.raises(ValueError, match="sample: top_ids must have 1 to 8 columns"):
        gp.sample(x, top_ids=gp.zeros((2, 9), dtype="int32"), top_logprobs=gp.zeros((2, 9)))
    whole = gp.zeros((2, 4))
    with pytest.raises(ValueError, match="sample: top_logprobs and another result share memory"):
        gp.sample(
            x,
            logprobs=whole[:, 0],
            top_ids=gp.zeros((2, 2), dtype="int32"),
            top_logprobs=whole[:, 0:2],
        )
    with pytest.raises(TypeError, match="sample: history"):
        gp.sample(x, history=[[1]])
    assert gp.sample(gp.zeros((0, 8))).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_names_of_0_2(device, rng, dtype):
    values = round_to(rng.normal(size=300) * 3, dtype)
    x, best = upload(values, dtype), int(np.argmax(values))
    order = np.argsort(-values, kind="stable")
    assert gp.sample_greedy(x) == best == gp.sample_token_gpu(x, temperature=0.0)
    assert gp.sample_token_gpu(upload(values[None], dtype), 1e-7) == best
    assert gp.sample_topk(x, 1, 1.0) == best == gp.sample_topp(x, 1e-6, 1.0)
    gp.set_sampling_seed(1)
    drawn = [gp.sample_multinomial(x, 2.0) for _ in range(20)]
    gp.set_sampling_seed(1)
    assert [gp.sample_multinomial(x, 2.0) for _ in range(20)] == drawn and len(set(drawn)) > 3
    assert all(isinstance(token, int) for token in drawn)
    assert {gp.sample_topk(x, 4, 50.0) for _ in range(100)} == set(order[:4].tolist())
    assert {gp.sample_token_gpu(x, 50.0, top_k=4, top_p=0.4) for _ in range(100)} <= set(order[:2].tolist())
    buffer, uniform = gp.zeros((1,), dtype="int32"), array([0.0], "float32")
    graph = gp.CudaGraph()
    with graph.capture():
        assert gp.sample_topk_to_buf_ptr(x, buffer, uniform, 3, 1.0) is None
    seen = set()
    for u in (0.0, 0.5, 0.99999):
        gp.copy_to(array([u], "float32"), uniform)
        graph.replay()
        seen.add(buffer.item())
    assert min(order[:3]) in seen and seen <= set(order[:3].tolist())
    with pytest.raises(ValueError, match=r"sample_greedy: logits must be \[vocab\] or \[1, vocab\]"):
        gp.sample_greedy(gp.zeros((2, 8), dtype=dtype))
    with pytest.raises(ValueError, match="result_buf must have shape"):
        gp.sample_topk_to_buf_ptr(x, gp.zeros((2,), dtype="int32"), uniform, 3, 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", [1, 40, 1025, 5000])
def test_both_devices_draw_the_same(rng, dtype, vocab):
    rows, n = 16, min(vocab, 17)
    x = round_to(np.round(rng.normal(size=(rows, vocab)) * 8) / 4, dtype)  # many ties
    x[1, vocab // 2], x[2, vocab // 2], x[3] = np.nan, np.inf, -np.inf
    with gp.device("cpu"):
        given = {"logits": upload(x, dtype), **numbers_of_rows(rng, rows, vocab)}
    results = []
    for device in ("cpu", "cuda"):
        with gp.device(device):
            reports = [gp.zeros((rows,)), gp.zeros((rows, n), dtype="int32"), gp.zeros((rows, n))]
            there = {name: value.to(device) for name, value in given.items()}
            chosen = gp.sample(**there, logprobs=reports[0], top_ids=reports[1], top_logprobs=reports[2])
            results.append([r.to_numpy() for r in (chosen, *reports)])
    for cpu, cuda in zip(*results, strict=True):
        if cpu.dtype == np.int32:
            np.testing.assert_array_equal(cuda, cpu)
        else:
            np.testing.assert_allclose(cuda, cpu, rtol=1e-6)


def test_seeds_of_64_bits(device, rng):
    logits = upload(rng.normal(size=(3, 50)), "float32")
    for seed in (0, 2**63, 2**64 - 1):
        one = gp.sample(logits, seed=seed).to_numpy()
        np.testing.assert_array_equal(gp.sample(logits, seed=seed).to_numpy(), one)
        rows = gp.from_numpy(np.full(3, seed, np.uint64))
        first = gp.sample(logits[:1], seed=rows[:1]).to_numpy()
        np.testing.assert_array_equal(one[:1], first)
        gp.set_sampling_seed(seed)
        drawn = [gp.sample(logits).to_numpy() for _ in range(2)]
        gp.set_sampling_seed(seed)
        np.testing.assert_array_equal([gp.sample(logits).to_numpy() for _ in range(2)], drawn)
    for seed in (-1, 2**64, 10**40):
        with pytest.raises(ValueError, match=f"sample: seed must be 0 to 2.64 - 1, got {seed}"):
            gp.sample(logits, seed=seed)
        with pytest.raises(ValueError, match="set_sampling_seed: seed must be"):
            gp.set_sampling_seed(seed)
    with pytest.raises(TypeError, match="set_sampling_seed: seed must be an int"):
        gp.set_sampling_seed(1.5)


def test_topk_to_buffer_by_a_number(device, rng):
    logits, given, drawn = upload(rng.normal(size=(1, 90)), "float16"), gp.zeros((1,), dtype="int32"), gp.zeros((1,), dtype="int32")
    for number in (0.0, 0.3, 0.99):
        gp.compat.sample_topk_to_buf(logits, given, 5, 0.7, number)
        gp.ops.sample_topk_to_buf_ptr(logits, drawn, gp.asarray([number], dtype="float32"), 5, 0.7)
        assert given.tolist() == drawn.tolist()
