"""Element types."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pygpukit import _core
from pygpukit.errors import DTypeError

__all__ = [
    "DataType",
    "DataTypeKind",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "float4_e2m1",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


class DataTypeKind(Enum):
    """One member per element type; the value is its name."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    FLOAT8_E4M3 = "float8_e4m3"
    FLOAT8_E5M2 = "float8_e5m2"
    INT4 = "int4"
    FLOAT4_E2M1 = "float4_e2m1"


def _is_numpy_dtype(value: object) -> bool:
    """Whether a dtype or a scalar type of NumPy; false while NumPy was never imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and (
        isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic))
    )


@dataclass(frozen=True, eq=False, repr=False)
class DataType:
    """An element type. Equal to another of the same name, to NumPy's of that name and to the name itself.

    Its hash is that of NumPy's scalar type: a dict with keys of either finds the other.
    """

    kind: DataTypeKind
    itemsize: int
    name: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DataType({self.name})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DataType):
            return self.name == other.name
        if isinstance(other, str):
            return self.name == other
        if _is_numpy_dtype(other):
            return bool(self.name == sys.modules["numpy"].dtype(other).name)
        return NotImplemented

    def __hash__(self) -> int:
        numpy_dtype = self.to_numpy_dtype()
        return hash(numpy_dtype.type if numpy_dtype.name == self.name else self.name)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return DataType.from_string, (self.name,)

    @property
    def dtype(self) -> Any:
        """What NumPy reads where it is given this as a dtype. AttributeError for what NumPy has no dtype for."""
        numpy_dtype = self.to_numpy_dtype()
        if numpy_dtype.name != self.name:
            raise AttributeError(f"NumPy has no dtype {self.name}; its bits are {numpy_dtype.name}")
        return numpy_dtype

    def to_numpy_dtype(self) -> Any:
        """The ``numpy.dtype`` that holds the same bits: uint16 for bfloat16, uint8 for float8 and packed types."""
        return _core._numpy_dtype(self)

    @staticmethod
    def from_numpy_dtype(np_dtype: Any) -> DataType:
        """The element type of a NumPy dtype. DTypeError ``Unsupported dtype ...`` when there is none."""
        import numpy as np

        try:
            dtype = np.dtype(np_dtype)
        except TypeError:
            raise DTypeError(f"Unsupported dtype: {np_dtype!r}") from None
        found: DataType = _core._dtype_from_numpy(dtype)
        return found

    @staticmethod
    def from_string(name: str) -> DataType:
        """The element type of that name. DTypeError ``Unsupported dtype string ...`` when there is none."""
        try:
            return _BY_NAME[name]
        except KeyError:
            raise DTypeError(f"Unsupported dtype string: {name!r}; valid are {', '.join(_BY_NAME)}") from None


def _make(kind: DataTypeKind, itemsize: int) -> DataType:
    return DataType(kind, itemsize, kind.value)


bool_ = _make(DataTypeKind.BOOL, 1)
int8 = _make(DataTypeKind.INT8, 1)
int16 = _make(DataTypeKind.INT16, 2)
int32 = _make(DataTypeKind.INT32, 4)
int64 = _make(DataTypeKind.INT64, 8)
uint8 = _make(DataTypeKind.UINT8, 1)
uint16 = _make(DataTypeKind.UINT16, 2)
uint32 = _make(DataTypeKind.UINT32, 4)
uint64 = _make(DataTypeKind.UINT64, 8)
float16 = _make(DataTypeKind.FLOAT16, 2)
bfloat16 = _make(DataTypeKind.BFLOAT16, 2)
float32 = _make(DataTypeKind.FLOAT32, 4)
float64 = _make(DataTypeKind.FLOAT64, 8)
complex64 = _make(DataTypeKind.COMPLEX64, 8)
complex128 = _make(DataTypeKind.COMPLEX128, 16)
float8_e4m3 = _make(DataTypeKind.FLOAT8_E4M3, 1)
float8_e5m2 = _make(DataTypeKind.FLOAT8_E5M2, 1)
int4 = _make(DataTypeKind.INT4, 1)
float4_e2m1 = _make(DataTypeKind.FLOAT4_E2M1, 1)

# In the order of the library's own numbering.
_ALL = (
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
    float8_e4m3,
    float8_e5m2,
    int4,
    float4_e2m1,
)
#: The dtypes of the array standard.
STANDARD = tuple(d for d in _ALL if d not in (float16, bfloat16, float8_e4m3, float8_e5m2, int4, float4_e2m1))
_BY_NAME = {dtype.name: dtype for dtype in _ALL}

for _index, _dtype in enumerate(_ALL):
    _core._register_dtype(_index, _dtype)
