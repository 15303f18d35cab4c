"""What the array standard asks of the package as a whole."""

from __future__ import annotations

from pygpukit import _core
from pygpukit._core import Device
from pygpukit.core import dtypes as _dtypes
from pygpukit.core.dtypes import DataType

__all__ = ["ArrayNamespaceInfo", "__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = "2024.12"
Kind = str | tuple[str, ...]


class ArrayNamespaceInfo:
    """Devices, dtypes and abilities, as the array standard's inspection functions."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """What the standard leaves open, and whether it works here."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        """Where new arrays lie when no device is given."""
        return _core.empty(0).device

    def devices(self) -> list[Device]:
        """Every device of this process."""
        return list(_core.devices())

    def default_dtypes(self, *, device: object = None) -> dict[str, DataType]:
        """The dtype of new arrays of each kind."""
        return {
            "real floating": _dtypes.float32,
            "complex floating": _dtypes.complex64,
            "integral": _dtypes.int64,
            "indexing": _dtypes.int64,
        }

    def dtypes(self, *, device: object = None, kind: Kind | None = None) -> dict[str, DataType]:
        """The dtypes of the standard, by name; those of one kind or of several."""
        return {d.name: d for d in _dtypes.STANDARD if kind is None or _core.isdtype(d, kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Devices, dtypes and abilities of this namespace, as the array standard asks."""
    return ArrayNamespaceInfo()
