"""NumPy's files: exchanged both ways, hostile ones refused."""

from __future__ import annotations

import io
import random
import struct
import zipfile

import numpy as np
import pytest
from opcase import ARITHMETIC, normal, upload

import pygpukit as gp

DTYPES = [d for d in ARITHMETIC if d != "bfloat16"]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (4, 5), (2, 3, 4, 5), (1,) * 8]


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_both_ways(dtype, device, rng, tmp_path):
    for shape in SHAPES:
        values = np.asarray(normal(rng, shape, dtype)).astype(dtype)
        gp.save(tmp_path / "ours", upload(values, dtype))
        back = np.load(tmp_path / "ours.npy", allow_pickle=False)
        assert back.dtype == dtype and back.shape == shape
        np.testing.assert_array_equal(back, values)
        for order in ("C", "F"):
            np.save(tmp_path / "theirs.npy", np.asarray(values, order=order))
            loaded = gp.load(tmp_path / "theirs.npy")
            assert loaded.dtype.name == dtype and loaded.device == device
            np.testing.assert_array_equal(loaded.to_numpy(), values)
        np.save(tmp_path / "swapped.npy", values.astype(values.dtype.newbyteorder(">")))
        np.testing.assert_array_equal(gp.load(tmp_path / "swapped.npy").to_numpy(), values)


def test_the_bytes_are_numpys(tmp_path, device, rng):
    for shape in SHAPES:
        values = rng.normal(size=shape)
        gp.save(str(tmp_path / "ours.npy"), gp.asarray(values))
        np.save(tmp_path / "theirs.npy", values)
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def test_views_and_versions(tmp_path, device):
    x = gp.arange(24).reshape(4, 6)
    gp.save(tmp_path / "a.npy", x.T[1:, ::2])
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(24).reshape(4, 6).T[1:, ::2])
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(tmp_path / "v.npy", "wb") as file:
            np.lib.format.write_array(file, np.arange(5), version)
        assert gp.load(tmp_path / "v.npy").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_from_numpy(save, device, rng, tmp_path):
    arrays = {
        "noise": rng.normal(size=(70, 90)),
        "zeros": np.zeros((300, 500), "int16"),
        "ramp": np.arange(100_000) // 7,
        "none": np.zeros((0, 3), "bool"),
        "folder/name": np.array(3 + 4j),
    }
    save(tmp_path / "a.npz", np.arange(3), **arrays)
    found = gp.load(tmp_path / "a.npz")
    assert isinstance(found, gp.NpzFile)
    assert sorted(found) == sorted(found.files) == sorted(found.keys()) == sorted([*arrays, "arr_0"])
    assert len(found) == 6 and "noise" in found and "no" not in found
    for name, values in arrays.items():
        assert found[name].device == device
        np.testing.assert_array_equal(found[name].to_numpy(), values)
    assert found.load("arr_0", device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(KeyError, match="no array 'no'"):
        found["no"]


def test_npz_to_numpy(device, rng, tmp_path):
    a, b = rng.normal(size=(7, 9)), rng.integers(0, 9, 5)
    gp.savez(tmp_path / "a", gp.asarray(a), b=gp.asarray(b), file2=gp.ones(0))
    found = np.load(tmp_path / "a.npz", allow_pickle=False)
    assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None
    np.testing.assert_array_equal(found["arr_0"], a)
    np.testing.assert_array_equal(found["b"], b)
    np.testing.assert_array_equal(gp.load(tmp_path / "a.npz")["b"].to_numpy(), b)
    gp.savez(tmp_path / "none.npz")
    assert len(gp.load(tmp_path / "none.npz")) == 0
    with pytest.raises(ValueError, match="'arr_0' twice"):
        gp.savez(tmp_path / "b", gp.ones(1), arr_0=gp.ones(1))
    with pytest.raises(TypeError, match="savez"):
        gp.savez(tmp_path / "b", a)


def test_what_numpy_cannot_name(tmp_path, device):
    with pytest.raises(TypeError, match="bfloat16"):
        gp.save(tmp_path / "a", gp.ones(3, dtype="bfloat16"))
    with pytest.raises(OSError, match="missing.npy"):
        gp.load(tmp_path / "missing.npy")


def npy(header, data=b"", version=b"\x01\x00"):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def pickled(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


FINE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
HOSTILE = {
    "empty": (b"", "no .npy"),
    "short": (b"\x93NUMPY\x01\x00", "no .npy"),
    "object": (pickled(np.array([Trap()], object)), "could run any code"),
    "structured": (pickled(np.zeros(2, [("a", "f4")])), "one plain array"),
    "text": (pickled(np.array(["ab"])), "'<U2' is not one of ours"),
    "dates": (pickled(np.zeros(2, "M8[s]")), "is not one of ours"),
    "version": (npy(FINE, bytes(8), b"\x09\x00"), "version 9.0"),
    "few bytes": (npy(FINE, bytes(7)), "7 bytes of elements"),
    "many bytes": (npy(FINE, bytes(9)), "9 bytes of elements"),
    "huge": (npy(FINE.replace("(2,)", "(4611686018427387904, 4)")), "larger than any memory"),
    "huge none": (npy(FINE.replace("(2,)", "(0, 9223372036854775807, 9)")), "larger than any memory"),
    "too long a size": (npy(FINE.replace("(2,)", "(99999999999999999999,)")), "not one of sizes"),
    "negative": (npy(FINE.replace("(2,)", "(-1,)")), "not one of sizes"),
    "code": (npy(FINE.replace("(2,)", "__import__('os').abort()")), "missing"),
    "rank": (npy(FINE.replace("(2,)", "(1,1,1,1,1,1,1,1,1)")), "8 dimensions"),
    "keys": (npy(FINE.replace("shape", "shade"), bytes(8)), "the key 'shade'"),
    "twice": (npy(FINE.replace("'fortran_order': False", "'descr': '<f4'"), bytes(8)), "the key 'descr'"),
    "lacks": (npy("{'descr': '<f4', 'fortran_order': False}", bytes(8)), "lacks"),
    "behind": (npy(FINE + "()", bytes(8)), "follows"),
    "unclosed": (npy("{'descr': '<f4"), "does not end"),
    "header": (b"\x93NUMPY\x01\x00\xff\xff{", "ends in its header"),
    "long header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "claims 4294967295 bytes"),
    "zip": (b"PK\x03\x04" + bytes(50), "no directory"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, tmp_path, device):
    data, message = HOSTILE[name]
    path = tmp_path / "hostile.npy"
    path.write_bytes(data)
    with pytest.raises(gp.errors.FormatError, match="hostile.npy") as caught:
        gp.load(path)
    assert message in str(caught.value)


def test_hostile_archives(tmp_path, device):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(1000), b=np.ones(3))
    good = path.read_bytes()
    bomb = bytearray(good)
    at = good.index(b"PK\x01\x02")
    bomb[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(bomb)
    with pytest.raises(gp.errors.FormatError, match="more bytes than it can have"):
        gp.load(path)["a"]
    np.savez(path, a=np.array([Trap()], object))
    with pytest.raises(gp.errors.FormatError, match="could run any code"):
        gp.load(path)["a"]
    # Any damage is refused or changes nothing that is read.
    chance = random.Random(5)
    for _ in range(400):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            found = gp.load(path)
            if isinstance(found, gp.NpzFile) and "a" in found:
                np.testing.assert_array_equal(found["a"].to_numpy(), np.arange(1000))
        except (gp.errors.FormatError, UnicodeDecodeError):
            pass


def test_savez_compressed(device, tmp_path, rng):
    """Shorter where it can be, read by NumPy and by load(), the same bytes for the same arrays."""
    arrays = {
        "zeros": np.zeros((300, 40), "float32"),
        "noise": rng.integers(0, 2**63, 5000),
        "text": np.frombuffer(b"a word, a word and another word; " * 500, "uint8"),
        "steps": np.arange(40000, dtype="int32"),
        "empty": np.zeros((0, 3)),
        "one": np.asarray(2.5),
    }
    given = {name: gp.asarray(x) for name, x in arrays.items()}
    gp.savez_compressed(tmp_path / "packed", **given)
    gp.savez(tmp_path / "plain", **given)
    packed, plain = tmp_path / "packed.npz", tmp_path / "plain.npz"
    assert packed.stat().st_size < 0.5 * plain.stat().st_size
    for found in (np.load(packed), gp.load(packed)):
        for name, x in arrays.items():
            got = found[name] if isinstance(found[name], np.ndarray) else found[name].to_numpy()
            assert got.dtype == x.dtype and got.shape == x.shape
            np.testing.assert_array_equal(got, x)
    first = packed.read_bytes()
    gp.savez_compressed(packed, **given)
    assert packed.read_bytes() == first
