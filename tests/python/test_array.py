"""GPUArray: what it is, conversions, views, operators."""

import copy
import operator
import pickle
import time
import weakref

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp

SHAPES = [(), (1,), (0,), (7,), (3, 4), (2, 0, 5), (2, 3, 4)]


def arange(shape, dtype="float32"):
    host = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    return host, gp.from_numpy(host)


@pytest.mark.parametrize("shape", SHAPES)
def test_metadata(device, shape):
    host, x = arange(shape)
    assert x.shape == host.shape and x.ndim == host.ndim and x.size == host.size
    assert x.nbytes == host.nbytes and x.itemsize == 4
    assert x.dtype is gp.float32 and x.device == device and x.on_gpu is True
    assert x.is_contiguous() and x.contiguous() is x
    if x.size:
        assert x.strides == host.strides


def test_device_ptr_touches_last_access(device):
    before = time.time()
    x = gp.zeros(4)
    first = x.last_access
    assert first == x.last_access
    time.sleep(0.01)
    assert isinstance(x.device_ptr, int) and x.device_ptr != 0
    assert x.last_access > first >= before - 1
    assert x[1:].device_ptr == x.device_ptr + 4


def test_constructor(device):
    x = gp.GPUArray((2, 3), "int16")
    assert x.shape == (2, 3) and x.dtype is gp.int16 and x.device == device
    with pytest.raises(TypeError):
        gp.GPUArray()
    with pytest.raises(RuntimeError, match="Invalid device pointer"):
        gp.GPUArray((2,), "int8", device_ptr=12345)


@pytest.mark.filterwarnings("ignore:nanobind")
def test_wrong_self_is_a_type_error(device):
    x = gp.zeros(2)
    for name in ("to", "astype", "contiguous", "__getitem__", "reshape", "__reduce__", "sum"):
        method = getattr(gp.GPUArray, name)
        arguments = () if name in ("contiguous", "__reduce__", "sum") else ("float32",)
        for bad in (3, None, gp.GPUArray.__new__(gp.GPUArray)):
            with pytest.raises(TypeError):
                method(bad, *arguments)
    for call in (lambda: gp.CudaGraph.begin_capture(x), lambda: gp.Stream.__enter__(x), lambda: gp.Device.__enter__(3)):
        with pytest.raises((TypeError, RuntimeError)):
            call()
    with pytest.raises(TypeError):
        gp.add(x, gp.GPUArray.__new__(gp.GPUArray))
    assert gp.GPUArray.__add__(3, x) is NotImplemented
    with pytest.raises(TypeError, match="self must be a GPUArray"):
        gp.GPUArray.__iadd__(3, x)


def test_weak_references_and_attributes(device):
    x = gp.zeros(2)
    ref = weakref.ref(x)
    x.label = "mine"
    assert x.label == "mine"
    del x
    assert ref() is None


# Conversions


def test_len_iter_and_rows_are_views(device):
    host, x = arange((4, 3))
    assert len(x) == 4
    rows = list(x)
    assert [row.tolist() for row in rows] == host.tolist()
    rows[1][:] = 9
    assert x[1].tolist() == [9, 9, 9]
    for bad in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            bad(gp.zeros(()))


@pytest.mark.parametrize(
    ("value", "dtype", "kind"),
    [(True, "bool", bool), (-3, "int8", int), (2**63, "uint64", int), (1.5, "float16", float), (1.5, "bfloat16", float),
     (0.1, "float64", float), (1 + 2j, "complex64", complex), (3, "uint16", int), (1.5, "float8_e4m3", float)],
)  # fmt: skip
def test_item_is_a_python_number(device, value, dtype, kind):
    x = gp.asarray([value], dtype=dtype)
    assert type(x.item()) is kind and x.item() == value
    assert x.tolist() == [value] and x.reshape(()).tolist() == value


def test_number_protocols(device):
    x = gp.asarray(3, dtype="int32")
    assert int(x) == 3 and float(x) == 3.0 and complex(x) == 3 and bool(x) and [0, 1, 2, 3, 4][x] == 3
    assert range(10)[x] == 3
    assert float(gp.asarray(2.5)) == 2.5 and int(gp.asarray(2.5)) == 2
    assert not gp.zeros(())
    many = gp.zeros(2)
    for convert in (int, float, complex):
        with pytest.raises(TypeError, match="size 1"):
            convert(many)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(many)
    with pytest.raises(TypeError, match="integer"):
        operator.index(gp.asarray(2.5))
    with pytest.raises(TypeError):
        float(gp.asarray(1j))


def test_to_numpy_bits_and_conversion(device):
    x = gp.asarray([1.0, -2.5, 448], dtype="bfloat16")
    assert x.to_numpy().dtype == np.uint16
    np.testing.assert_array_equal(x.to_numpy(), np.array([1.0, -2.5, 448], ml_dtypes.bfloat16).view(np.uint16))
    np.testing.assert_array_equal(x.to_numpy(dtype="float32"), np.float32([1.0, -2.5, 448]))
    np.testing.assert_array_equal(x.to_numpy(dtype=np.int32), np.int32([1, -2, 448]))
    eight = x.astype("float8_e4m3")
    np.testing.assert_array_equal(eight.to_numpy(), np.array([1.0, -2.5, 448], ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert eight.to_numpy(dtype=ml_dtypes.float8_e4m3fn).dtype == ml_dtypes.float8_e4m3fn
    assert gp.zeros(3, dtype="int4").to_numpy().dtype == np.uint8


def test_to_numpy_of_views(device):
    host, x = arange((5, 6, 7))
    np.testing.assert_array_equal(x[::2, ::-1, 3].to_numpy(), host[::2, ::-1, 3])
    np.testing.assert_array_equal(x.T.to_numpy(), host.T)
    assert x.T.to_numpy().flags.c_contiguous


def test_astype(device):
    x = gp.asarray([1.7, -1.7, 3.0])
    assert x.astype("float32") is x and x.astype(gp.float32) is x
    assert x.astype("float32", copy=True) is not x
    assert x.astype("int32").tolist() == [1, -1, 3]
    assert x.astype(np.float64).dtype is gp.float64
    bits = np.array([1.00390625, 1.01171875], np.float32)  # both halfway: to even
    assert gp.from_numpy(bits).astype("bfloat16").tolist() == [1.0, 1.015625]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float8_e5m2", "complex128", "int4"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4)])
def test_pickle_and_copies(device, dtype, shape):
    x = gp.zeros(shape, dtype=dtype) if dtype == "int4" else gp.ones(shape, dtype="float32").astype(dtype)
    for duplicate in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy(), x.clone()):
        assert duplicate.shape == shape and duplicate.dtype is x.dtype and duplicate.device == x.device
        np.testing.assert_array_equal(duplicate.to_numpy(), x.to_numpy())


def test_pickle_of_a_view_holds_the_view_only(device):
    _, x = arange((1000, 10))
    data = pickle.dumps(x[::100, 3])
    assert len(data) < 500
    np.testing.assert_array_equal(pickle.loads(data).to_numpy(), x[::100, 3].to_numpy())
    with gp.device("cpu"):
        assert pickle.loads(data).device == "cpu"


def test_to_device(device):
    _, x = arange((3, 4))
    assert x.to(device) is x and x.to(str(device)) is x
    moved = x.T.to("cpu")
    assert moved.device == "cpu"
    np.testing.assert_array_equal(moved.to_numpy(), x.T.to_numpy())


@pytest.mark.gpu
def test_to_device_and_back():
    host = np.arange(12.0).reshape(3, 4)
    x = gp.from_numpy(host, device="cpu")
    y = x[:, ::2].to("cuda")
    assert y.device == "cuda:0" and y.to("cpu").tolist() == host[:, ::2].tolist()


# Views


def test_reshape_and_view(device):
    host, x = arange((4, 6))
    for shape in [(24,), (2, 12), (-1, 3), (2, -1, 2), (1, 24)]:
        np.testing.assert_array_equal(x.reshape(*shape).to_numpy(), host.reshape(shape))
        np.testing.assert_array_equal(x.reshape(list(shape)).to_numpy(), host.reshape(shape))
    y = x.view((24,))
    y[0] = 50
    assert x[0, 0].item() == 50
    np.testing.assert_array_equal(x.T.reshape(-1).to_numpy(), x.to_numpy().T.reshape(-1))
    for bad in [(5, 5), (-1, -1), (-1, 7), (-2, 12)]:
        with pytest.raises(ValueError, match="shape"):
            x.reshape(bad)
    with pytest.raises(ValueError, match="view"):
        x.T.view((24,))
    with pytest.raises(ValueError):
        x.view((23,))
    with pytest.raises(TypeError, match="bitcast"):
        x.view("int32")
    assert gp.zeros((0, 3)).reshape(3, 0).shape == (3, 0)


def test_transpose(device):
    host, x = arange((2, 3, 4))
    np.testing.assert_array_equal(x.T.to_numpy(), host.T)
    for axes in [(0, 2, 1), (2, 0, 1), (-1, 0, 1)]:
        np.testing.assert_array_equal(x.transpose(*axes).to_numpy(), host.transpose(axes))
        np.testing.assert_array_equal(x.transpose(axes).to_numpy(), host.transpose(axes))
    np.testing.assert_array_equal(x.mT.to_numpy(), np.swapaxes(host, -1, -2))
    assert x.T.device_ptr == x.device_ptr and not x.T.is_contiguous()
    for bad in [(0, 1), (0, 0, 1)]:
        with pytest.raises(ValueError, match="axes"):
            x.transpose(bad)
    with pytest.raises(IndexError):
        x.transpose(0, 1, 3)


def test_narrow_and_slice_rows(device):
    host, x = arange((10,))
    np.testing.assert_array_equal(x.narrow(3, 4).to_numpy(), host[3:7])
    host, x = arange((1, 10))
    np.testing.assert_array_equal(x.narrow(3, 4).to_numpy(), host[:, 3:7])
    host, x = arange((4, 10))
    np.testing.assert_array_equal(x.narrow(offset=3, length=4).to_numpy(), host[:, 3:7])
    np.testing.assert_array_equal(x.narrow(1, 2, axis=0).to_numpy(), host[1:3])
    np.testing.assert_array_equal(x.slice_rows(2).to_numpy(), host[:2])
    assert x.slice_rows(2).device_ptr == x.device_ptr
    for call in (lambda: x.slice_rows(5), lambda: x.slice_rows(-1), lambda: x[0].slice_rows(1)):
        with pytest.raises(ValueError, match="slice_rows"):
            call()
    for call in (lambda: x.narrow(8, 4), lambda: x.narrow(-1, 4), lambda: x.narrow(0, -1)):
        with pytest.raises((ValueError, IndexError), match="narrow"):
            call()


def test_squeeze_expand_flatten(device):
    host, x = arange((2, 1, 3, 1))
    assert x.squeeze().shape == (2, 3) and x.squeeze(1).shape == (2, 3, 1) and x.squeeze((1, -1)).shape == (2, 3)
    assert x.expand_dims(0).shape == (1, 2, 1, 3, 1) and x.expand_dims(-1).shape == (2, 1, 3, 1, 1)
    np.testing.assert_array_equal(x.expand(2, 5, -1, 4).to_numpy(), np.broadcast_to(host, (2, 5, 3, 4)))
    np.testing.assert_array_equal(x.flatten().to_numpy(), host.flatten())
    flat = x.ravel()
    assert flat.device_ptr == x.device_ptr and x.flatten().device_ptr != x.device_ptr
    with pytest.raises(ValueError, match="squeeze"):
        x.squeeze(0)
    with pytest.raises(ValueError, match="shape|broadcast"):
        x.expand(3, 1, 3, 1)


# Text


def test_repr_shows_what_it_is(device):
    x = gp.asarray([[1.5, 2.0], [3.25, -4.0]])
    text = repr(x)
    assert text == str(x)
    backend = "simulation" if device == "cpu" else "native"
    assert text.startswith("GPUArray([[1.5, 2.], [3.25, -4.]], ")
    assert f"shape=(2, 2), dtype=float32, device={device}, backend={backend})" in text
    assert "shape=(3,)" in repr(gp.zeros(3)) and "shape=()" in repr(gp.zeros(()))
    assert repr(gp.zeros((0, 4))).startswith("GPUArray([], shape=(0, 4)")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [(0.1, "float16", "0.1"), (0.1, "bfloat16", "0.1"), (1 / 3, "float32", "0.33333334"), (float("nan"), "float64", "nan"),
     (float("-inf"), "float32", "-inf"), (True, "bool", "True"), (2**64 - 1, "uint64", str(2**64 - 1)),
     (1 - 2j, "complex64", "1.-2.j"), (448, "float8_e4m3", "448.")],
)  # fmt: skip
def test_repr_of_values(device, value, dtype, text):
    assert repr(gp.asarray([value], dtype=dtype)).startswith(f"GPUArray([{text}],")


def test_repr_shows_six_edge_values_per_axis(device):
    x = gp.arange(100)
    assert repr(x).startswith("GPUArray([0, 1, 2, ..., 97, 98, 99],")
    grid = gp.arange(100 * 100).reshape(100, 100)
    assert repr(grid[::-1]).startswith("GPUArray([[9900, 9901, 9902, ..., 9997, 9998, 9999], [9800,")
    assert len(repr(gp.zeros((9, 9, 9, 9, 9, 9)))) < 2500
    assert "..." not in repr(gp.zeros(6)) and "..." in repr(gp.zeros(7))


def test_repr_reads_the_edges_alone(device):
    x = gp.zeros((1,)).expand(10**7, 10**7)  # 400 TB, were it read as a whole
    assert "shape=(10000000, 10000000)" in repr(x)


# Operators

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", BINARY + COMPARE)
def test_binary_operators(device, rng, name):
    f = getattr(operator, name)
    a, b = rng.uniform(0.5, 4, (3, 5)).astype(np.float32), rng.uniform(0.5, 4, 5).astype(np.float32)
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    for got, want in [(f(x, y), f(a, b)), (f(x, 2), f(a, np.float32(2))), (f(3.5, x), f(np.float32(3.5), a)),
                      (f(np.float32(2), x), f(np.float32(2), a)), (f(x, np.int64(2)), f(a, np.float32(2)))]:  # fmt: skip
        assert got.shape == want.shape and got.dtype.name == str(want.dtype)
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("name", BITS)
def test_bit_operators(device, name):
    f = getattr(operator, name)
    a, b = np.array([1, 6, -9], np.int32), np.array([3, 1, 2], np.int32)
    np.testing.assert_array_equal(f(gp.from_numpy(a), gp.from_numpy(b)).to_numpy(), f(a, b))
    np.testing.assert_array_equal(f(gp.from_numpy(a), 2).to_numpy(), f(a, np.int32(2)))
    np.testing.assert_array_equal(f(5, gp.from_numpy(b)).to_numpy(), f(np.int32(5), b))
    np.testing.assert_array_equal((~gp.from_numpy(a)).to_numpy(), ~a)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_operators_write_to_the_array(device, name):
    f = getattr(operator, name)
    host = np.array([4.0, 9.0, 2.5], np.float32)
    x = gp.from_numpy(host)
    view = x[::2]
    assert f(view, 2) is view
    host[::2] = f(host[::2].copy(), 2)
    np.testing.assert_allclose(x.to_numpy(), host, rtol=1e-6)


def test_in_place_keeps_the_dtype(device):
    x = gp.ones(3, dtype="int32")
    with pytest.raises(gp.DTypeError):
        x += 1.5
    with pytest.raises(ValueError, match="shape"):
        x += gp.ones((2, 3), dtype="int32")
    assert x.tolist() == [1, 1, 1]


def test_unary_operators(device):
    x = gp.asarray([-1.5, 0.0, 2.0])
    assert (-x).tolist() == [1.5, 0, -2] and (+x).tolist() == [-1.5, 0, 2] and abs(x).tolist() == [1.5, 0, 2]


def test_matmul_operator(device):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    np.testing.assert_array_equal((x @ y).to_numpy(), a @ b)
    with pytest.raises(TypeError):
        x @ 2
    square = gp.from_numpy(np.eye(3) * 2)
    same = square
    square @= square
    assert square is same and square[0, 0].item() == 4


def test_foreign_operands_are_refused_or_asked(device):
    x = gp.ones(3)

    class Other:
        def __radd__(self, other):
            return "mine"

    assert x + Other() == "mine"
    for bad in ("text", None, [1, 2, 3], np.ones(3)):
        with pytest.raises(TypeError):
            x + bad
    with pytest.raises(TypeError):
        np.ones(3) + x
    assert (x == "text") is False and (x != None) is True  # noqa: E711


def test_arrays_are_not_hashable(device):
    with pytest.raises(TypeError, match="unhashable"):
        hash(gp.zeros(2))


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "max", "min", "any", "all", "var", "std", "argmax", "argmin", "cumsum"]
)
def test_reduction_methods(device, rng, name):
    host = rng.uniform(0.5, 2, (4, 5))
    x = gp.from_numpy(host)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(getattr(x, name)(axis=axis).to_numpy(), getattr(host, name)(axis=axis), rtol=1e-12)
    if name != "cumsum":
        assert getattr(x, name)(axis=1, keepdims=True).shape == (4, 1)
    out = gp.empty(getattr(x, name)(axis=0).shape, dtype=getattr(x, name)(axis=0).dtype)
    assert getattr(x, name)(axis=0, out=out) is out


def test_fill(device):
    x = gp.zeros((3, 3))
    x[:, 1].fill(7)
    assert x.tolist() == [[0, 7, 0]] * 3


def test_bitcast(device):
    x = gp.asarray([1.0, -2.0], dtype="float32")
    bits = gp.bitcast(x, gp.uint32)
    assert bits.tolist() == [0x3F800000, 0xC0000000] and bits.device_ptr == x.device_ptr
    bits[0] = 0x40400000
    assert x.tolist() == [3, -2]
    assert gp.bitcast(x, "uint16").shape == (4,) and gp.bitcast(gp.zeros((2, 4), dtype="uint8"), "int32").shape == (
        2,
        1,
    )
    with pytest.raises(ValueError, match="bitcast"):
        gp.bitcast(gp.zeros(3, dtype="uint8"), "int32")
    with pytest.raises(ValueError, match="bitcast"):
        gp.bitcast(gp.zeros((4, 4)).T, "float64")
    with pytest.raises(TypeError, match="bitcast: x must be a GPUArray"):
        gp.bitcast(3, "int32")
