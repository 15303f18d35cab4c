"""The Triton programs. One program instance makes one row, or one tile of queries. Sums are float32."""

# Triton reads annotations as objects, so this file does without `from __future__ import annotations`.
import triton
import triton.language as tl


@triton.jit
def rmsnorm_rows(x: tl.const, weight: tl.const, out, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < width, other=0.0).to(tl.float32)
        total += value * value
    scale = 1.0 / tl.sqrt_rn(tl.sum(total, axis=0) / width + eps)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        value = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row + at, (value * scale * factor).to(out.dtype.element_ty), mask=inside)


@triton.jit
def layernorm_rows(x: tl.const, weight: tl.const, bias: tl.const, out, width, eps, HAS_BIAS: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * width
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + at, mask=at < width, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / width
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        distance = tl.where(inside, tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32) - mean, 0.0)
        squares += distance * distance
    scale = 1.0 / tl.sqrt_rn(tl.sum(squares, axis=0) / width + eps)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        value = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
        result = (value - mean) * scale * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_BIAS:
            result += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_rows(x: tl.const, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.load(x + row + at, mask=at < width, other=float("-inf")).to(tl.float32))
    top = tl.max(largest, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < width, other=float("-inf")).to(tl.float32)
        total += tl.exp(value - top)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < width
        value = tl.load(x + row + at, mask=inside, other=float("-inf")).to(tl.float32)
        tl.store(out + row + at, (tl.exp(value - top) * scale).to(out.dtype.element_ty), mask=inside)


@triton.jit
def rotary_rows(x: tl.const, cos: tl.const, sin: tl.const, out, heads, length, half, table_width, BLOCK: tl.constexpr):
    """x is [..., length, heads, 2 * half]; a row is one head of one position."""
    number = tl.program_id(0).to(tl.int64)
    row = number * 2 * half
    table = (number // heads) % length * table_width
    at = tl.arange(0, BLOCK)
    inside = at < half
    c = tl.load(cos + table + at, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + table + at, mask=inside, other=0.0).to(tl.float32)
    first = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(x + row + half + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + at, (first * c - second * s).to(out.dtype.element_ty), mask=inside)
    tl.store(out + row + half + at, (second * c + first * s).to(out.dtype.element_ty), mask=inside)


@triton.jit
def attention_tiles(
    q: tl.const, k: tl.const, v: tl.const, out,
    q_head, q_row, k_head, k_row, v_head, v_row, out_head, out_row,
    q_length, kv_length, group, scale,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, WIDTH_BLOCK: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """A tile of ROWS queries of one head over all keys, KEYS at a time, with a running maximum and sum. The last query
    sees the last key; `group` heads of q share one of k and v. Strides are in elements, that of the last axis is 1."""
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH_BLOCK)
    wide = columns[None, :] < WIDTH
    q_mask = (rows[:, None] < q_length) & wide
    row_offsets = rows[:, None].to(tl.int64)
    queries = tl.load(q + head * q_head + row_offsets * q_row + columns[None, :], mask=q_mask, other=0.0)
    keys_at = k + head // group * k_head
    values_at = v + head // group * v_head
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, WIDTH_BLOCK), tl.float32)
    ahead = kv_length - q_length
    end = kv_length
    if CAUSAL:
        end = tl.minimum(kv_length, first + ROWS + ahead)
    for start in range(0, end, KEYS):
        places = start + tl.arange(0, KEYS)
        kv_mask = (places[:, None] < kv_length) & wide
        place_offsets = places[:, None].to(tl.int64)
        keys = tl.load(keys_at + place_offsets * k_row + columns[None, :], mask=kv_mask, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = places[None, :] < kv_length
        if CAUSAL:
            seen = seen & (places[None, :] <= rows[:, None] + ahead)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        # A row that has seen nothing yet has no maximum.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        shrink = tl.exp(top - base)
        weights = tl.exp(scores - base[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        values = tl.load(values_at + place_offsets * v_row + columns[None, :], mask=kv_mask, other=0.0)
        result = result * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = higher
    result = result / tl.where(total == 0.0, 1.0, total)[:, None]
    places_out = out + head * out_head + row_offsets * out_row + columns[None, :]
    tl.store(places_out, result.to(out.dtype.element_ty), mask=q_mask)
