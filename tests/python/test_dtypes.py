"""DataType objects and their conversions."""

import copy
import dataclasses
import pickle

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import dtypes
from pygpukit.core.dtypes import DataType, DataTypeKind

NAMES = [kind.value for kind in DataTypeKind]
SIZES = {"complex128": 16, "int4": 1, "float4_e2m1": 1, "bool": 1, "float8_e4m3": 1, "float8_e5m2": 1, "bfloat16": 2}


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_has_name_size_and_kind(name):
    dtype = DataType.from_string(name)
    assert str(dtype) == dtype.name == name
    assert repr(dtype) == f"DataType({name})"
    assert dtype.kind is DataTypeKind(name)
    assert dtype.itemsize == SIZES.get(name, np.dtype(name).itemsize if name not in SIZES else None)
    assert gp.empty(3, dtype=dtype).dtype is dtype
    assert gp.empty(3, dtype=name).itemsize == dtype.itemsize


def test_is_a_frozen_dataclass():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gp.float32.name = "other"
    assert [field.name for field in dataclasses.fields(DataType)] == ["kind", "itemsize", "name"]


def test_equality_is_by_name():
    twin = DataType(DataTypeKind.FLOAT32, 4, "float32")
    assert twin == gp.float32 and twin is not gp.float32
    assert hash(twin) == hash(gp.float32)
    assert gp.float32 == "float32" and gp.float32 != "float64" and gp.float32 != 4
    assert gp.zeros(2, dtype=twin).dtype is gp.float32


def test_keys_of_numpy_and_ours_find_each_other():
    for name in set(NAMES) - {"bfloat16", "float8_e4m3", "float8_e5m2", "int4", "float4_e2m1"}:
        ours, theirs = getattr(gp, name if name != "bool" else "bool_"), np.dtype(name).type
        assert ours == theirs and hash(ours) == hash(theirs), name
        assert {theirs: 1}[ours] == {ours: 1}[theirs] == 1
    assert len({gp.bfloat16, gp.uint16, gp.float8_e4m3, gp.uint8, gp.int4}) == 5


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_the_same_object(copier):
    assert copier(gp.bfloat16) is gp.bfloat16


def test_to_numpy_dtype_holds_the_bits():
    assert gp.bfloat16.to_numpy_dtype() == np.uint16
    assert gp.int4.to_numpy_dtype() == np.uint8
    assert gp.float4_e2m1.to_numpy_dtype() == np.uint8
    assert gp.float8_e4m3.to_numpy_dtype() == np.uint8
    assert gp.bool_.to_numpy_dtype() == np.bool_
    assert gp.complex64.to_numpy_dtype() == np.complex64


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("bfloat16", "float8_e4m3", "float8_e5m2", "int4", "float4_e2m1")]
)
def test_from_numpy_dtype_round_trips(name):
    assert DataType.from_numpy_dtype(np.dtype(name)).name == name


def test_from_numpy_dtype_knows_ml_dtypes():
    assert DataType.from_numpy_dtype(ml_dtypes.bfloat16) is gp.bfloat16
    assert DataType.from_numpy_dtype(ml_dtypes.float8_e4m3fn) is gp.float8_e4m3
    assert DataType.from_numpy_dtype(ml_dtypes.float8_e5m2) is gp.float8_e5m2


@pytest.mark.parametrize(
    "bad", [np.dtype("datetime64[s]"), np.dtype("U4"), np.longdouble, object, ml_dtypes.float8_e4m3]
)
def test_unsupported_numpy_dtypes(bad):
    with pytest.raises(ValueError, match="^Unsupported dtype"):
        DataType.from_numpy_dtype(bad)
    with pytest.raises(TypeError, match="^Unsupported dtype"):
        gp.zeros(2, dtype=bad)


def test_unsupported_string():
    with pytest.raises(ValueError, match="Unsupported dtype string"):
        DataType.from_string("float7")
    with pytest.raises(gp.DTypeError, match="Unsupported dtype string"):
        gp.zeros(2, dtype="float7")


@pytest.mark.parametrize(
    ("given", "name"),
    [(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"), (np.float16, "float16"),
     (np.dtype("<i2"), "int16"), ("uint64", "uint64"), (ml_dtypes.bfloat16, "bfloat16")],
)  # fmt: skip
def test_what_counts_as_a_dtype(given, name):
    assert gp.zeros(1, dtype=given).dtype.name == name


def test_module_exports():
    for name in dtypes.__all__:
        assert hasattr(dtypes, name)
    assert gp.bool is gp.bool_
    assert "bool" not in gp.__all__


def test_result_type():
    assert gp.result_type(gp.int8, gp.uint8) is gp.int16
    assert gp.result_type(gp.zeros(1, dtype="int32"), 1.5) is gp.float32
    assert gp.result_type(gp.float16, gp.bfloat16) is gp.float32
    with pytest.raises(gp.DTypeError, match="uint64"):
        gp.result_type(gp.uint64, gp.int8)
    with pytest.raises(ValueError, match="result_type"):
        gp.result_type(1, 2)
