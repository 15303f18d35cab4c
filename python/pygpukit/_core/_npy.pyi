"""NumPy's files; internal."""

from collections.abc import Iterator
from typing import Any

import pygpukit._core
import pygpukit.typing


class NpzFile:
    """The arrays of an .npz file by name, each read when asked for."""

    @property
    def files(self) -> list[str]:
        """The names."""

    def keys(self) -> list[str]:
        """The names."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: str) -> bool: ...

    def __getitem__(self, name: str) -> pygpukit._core.GPUArray:
        """The array on the default device."""

    def load(self, name: str, *, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """The array on a device."""

def load(file: pygpukit.typing.PathLike, *, device: pygpukit.typing.DeviceLike | None = None) -> Any:
    """
    The array of an .npy file, or an NpzFile for an archive of several. Pickled, structured and text arrays are refused: nothing in a file is ever run.
    """

def save(file: pygpukit.typing.PathLike, arr: pygpukit._core.GPUArray) -> None:
    """
    Writes an array as NumPy's .npy, all or nothing. The suffix is added where it is missing.
    """

def savez(file: pygpukit.typing.PathLike, *arrays: pygpukit._core.GPUArray, **named: pygpukit._core.GPUArray) -> None:
    """
    Writes arrays as NumPy's .npz, uncompressed, all or nothing; those without a name are arr_0, arr_1, ...
    """

def savez_compressed(file: pygpukit.typing.PathLike, *arrays: pygpukit._core.GPUArray, **named: pygpukit._core.GPUArray) -> None:
    """savez with each array deflated, where that makes it shorter."""
