"""Matrix products of every format, for tests that go through all of them."""

import pygpukit as gp


def operand(rng, shape, dtype):
    """In one of the ways a matrix may lie in memory."""
    rows, columns = shape
    way = rng.integers(4)
    pad = int(rng.choice([0, 1, 8])) if way >= 2 else 0
    held = (columns + pad, rows) if way in (1, 3) else (rows, columns + pad)
    if dtype == "int8":
        whole = gp.from_numpy(rng.integers(-128, 128, held).astype("int8"))
    else:
        values = rng.standard_normal(held).astype("float64" if dtype == "float64" else "float32")
        whole = gp.from_numpy(values).astype(dtype)
    return (whole.T if way in (1, 3) else whole)[:, :columns]


def exact(x):
    return x.to_numpy(dtype="float64")


def bits(x):
    host = x.to_numpy()
    return host.view(f"uint{8 * host.itemsize}")


class Plain:
    """`a @ b.T`, both in any layout."""

    def __init__(self, dtype, **options):
        self.dtype, self.options = dtype, options

    def make(self, rng, m, n, k):
        return (operand(rng, (m, k), self.dtype),), (operand(rng, (n, k), self.dtype),)

    def multiply(self, a, b, **more):
        return gp.matmul(a[0], b[0].T, **self.options, **more)


class Scaled:
    """Codes with their scales; plain `dtype` where a has no format."""

    def __init__(self, a_format, a_block, b_format, b_block, dtype="bfloat16"):
        self.a, self.b, self.dtype = (a_format, a_block), (b_format, b_block), dtype

    def make(self, rng, m, n, k):
        a, b = (operand(rng, (rows, k), self.dtype).copy() for rows in (m, n))
        left = [a, None] if self.a[0] is None else [*gp.quantize(a, self.a[0], block=self.a[1])]
        return left, gp.quantize(b, self.b[0], block=self.b[1])

    def multiply(self, a, b, **options):
        options |= {f"tensor_scale_{side}": given[2] for side, given in (("a", a), ("b", b)) if len(given) > 2}
        return gp.scaled_matmul(a[0], b[0], a[1], b[1], **options)

    @staticmethod
    def numbers(codes, scale, tensor_scale=None):
        """What the codes stand for, in float64."""
        return exact(codes if scale is None else gp.dequantize(codes, scale, tensor_scale=tensor_scale))


class Fused(Plain):
    """Dense: other layouts take the steps one by one, with other roundings."""

    def make(self, rng, m, n, k):
        a, b = super().make(rng, m, n, k)
        return (a[0].copy(),), (b[0].copy(), operand(rng, (1, n), self.dtype).reshape(n))

    def multiply(self, a, b, **more):
        return gp.linear(a[0], b[0], bias=b[1], activation="gelu", **more)


class Experts(Plain):
    """Three matrices; which one a row takes is its own."""

    def make(self, rng, m, n, k):
        a, b = super().make(rng, m, 3 * n, k)
        ids = gp.from_numpy(rng.integers(0, 3, m).astype("int32"))
        return (a[0].copy(), ids), (b[0].copy().reshape(3, n, k),)

    def multiply(self, a, b, **more):
        return gp.grouped_matmul(a[0], b[0], a[1], **more)


FORMATS = {
    "float64": Plain("float64"),
    "float32": Plain("float32"),
    "tf32": Plain("float32", use_tf32=True),
    "float16": Plain("float16"),
    "bfloat16": Plain("bfloat16"),
    "bfloat16 to float32": Plain("bfloat16", out_dtype="float32"),
    "fused": Fused("bfloat16"),
    "experts": Experts("bfloat16"),
    "e4m3 tensor": Scaled("fp8_e4m3", "tensor", "fp8_e4m3", "tensor"),
    "e4m3 row": Scaled("fp8_e4m3", "row", "fp8_e4m3", "row"),
    "e4m3 block": Scaled("fp8_e4m3", 128, "fp8_e4m3", (128, 128)),
    "e5m2 row": Scaled("fp8_e5m2", "row", "fp8_e5m2", "row"),
    "e5m2 block": Scaled("fp8_e5m2", 128, "fp8_e5m2", (128, 128)),
    "e5m2 by e4m3": Scaled("fp8_e5m2", "row", "fp8_e4m3", "row"),
    "e4m3 weights": Scaled(None, None, "fp8_e4m3", "row"),
    "e4m3 weights in blocks": Scaled(None, None, "fp8_e4m3", (128, 128)),
    "int8 weights": Scaled(None, None, "int8", "row"),
    "int4 weights": Scaled(None, None, "int4", 64),
    "nvfp4 weights": Scaled(None, None, "nvfp4", 16),
    "nvfp4": Scaled("nvfp4", 16, "nvfp4", 16),
}
