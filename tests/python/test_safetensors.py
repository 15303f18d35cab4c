"""SafeTensors: what is written comes back, and every broken file is told by name."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import io
from pygpukit.errors import FormatError
from pygpukit.io import SafeTensorsFile, ShardedSafeTensorsFile, load_safetensors, save_safetensors

NUMPY_NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16",
               "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64",
               "C64": "complex64"}


def pack(header, data=b"", length=None):
    """The bytes of a file. `header`: text, bytes or what json takes."""
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="F32", shape=(2,), begin=0, end=8, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_every_dtype_comes_back(tmp_path, device, rng, name):
    values = rng.integers(0, 2, (3, 5)).astype(NUMPY_NAMES[name])
    path = tmp_path / "x.safetensors"
    path.write_bytes(pack({"x": entry(name, (3, 5), 0, values.nbytes)}, values.tobytes()))
    array = SafeTensorsFile(path).load("x")
    assert array.device == device and array.dtype.name == NUMPY_NAMES[name]
    np.testing.assert_array_equal(array.to_numpy(), values)
    save_safetensors(path, {"y": array})
    np.testing.assert_array_equal(SafeTensorsFile(path).load("y").to_numpy(), values)


@pytest.mark.parametrize("name,dtype", [("BF16", "bfloat16"), ("F8_E4M3", "float8_e4m3"), ("F8_E5M2", "float8_e5m2")])
def test_dtypes_that_numpy_lacks(tmp_path, name, dtype):
    raw = bytes(range(24))
    size = 2 if name == "BF16" else 1
    path = tmp_path / "x.safetensors"
    path.write_bytes(pack({"x": entry(name, (24 // size,), 0, 24)}, raw))
    file = SafeTensorsFile(path)
    assert file.tensor_bytes("x") == raw and file.tensor_info("x").dtype_name == dtype
    assert file.load("x").dtype.name == dtype
    np.testing.assert_array_equal(file.tensor_as_f32("x"), file.load("x", dtype="float32").to_numpy())


def test_written_file(tmp_path, device, rng):
    """Wide elements first, then by name; aligned; strided arrays and texts come back."""
    matrix = rng.standard_normal((4, 6)).astype("float32")
    path = tmp_path / "x.safetensors"
    tensors = {"b": gp.from_numpy(matrix).T, "a": gp.from_numpy(matrix[:0]), "flag": gp.from_numpy(np.array([True])),
               "wide": gp.from_numpy(np.array(3.5)), "c": gp.from_numpy(matrix.astype("float16"))}
    save_safetensors(path, tensors, {"made by": "a test", "umlaut": "\u00e4"})
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    assert length % 8 == 0 and list(header) == ["__metadata__", "wide", "a", "b", "c", "flag"]
    file = SafeTensorsFile(path)
    assert file.metadata == {"made by": "a test", "umlaut": "\u00e4"} and file.file_size == len(raw)
    assert file.tensor_names == list(header)[1:] == list(file) and len(file) == file.num_tensors == 5
    assert "b" in file and "z" not in file and 3 not in file
    np.testing.assert_array_equal(file.load("b").to_numpy(), matrix.T)
    assert file.load("a").shape == (0, 6) and file.load("wide").item() == 3.5
    info = file.tensor_info("b")
    assert (info.name, info.dtype, info.shape, info.size_bytes, info.numel) == ("b", 0, [6, 4], 96, 24)
    assert raw[info.offset:info.offset + 96] == file.tensor_bytes("b") == matrix.T.tobytes()
    assert os.listdir(tmp_path) == ["x.safetensors"]
    with pytest.raises(KeyError, match="no tensor 'z'"):
        file.load("z")


def test_pointer_stays(tmp_path):
    import ctypes

    path = tmp_path / "x.safetensors"
    save_safetensors(path, {"x": gp.arange(10, dtype="int32", device="cpu")})
    file = SafeTensorsFile(path)
    address, size = file.tensor_data_ptr("x")
    path.write_bytes(b"")
    assert file.tensor_data_ptr("x") == (address, 40) == (address, size)
    assert ctypes.string_at(address, size) == np.arange(10, dtype="int32").tobytes()


def test_large_tensor_is_read_in_pieces(tmp_path, device, rng):
    values = rng.integers(0, 256, (9 << 20) + 13).astype("uint8")
    path = tmp_path / "x.safetensors"
    path.write_bytes(pack({"pad": entry("U8", (3,), 0, 3), "x": entry("U8", values.shape, 3, 3 + values.size)},
                          b"abc" + values.tobytes()))
    assert (SafeTensorsFile(path).load("x").to_numpy() == values).all()


def test_unaligned_data_and_spaces(tmp_path):
    """The format does not promise alignment; padding behind the header is white space."""
    values = np.arange(3, dtype="float64")
    path = tmp_path / "x.safetensors"
    text = json.dumps({"z": entry("F64", (3,), 1, 25), "a": entry("U8", (1,), 0, 1)}) + "   \n"
    path.write_bytes(pack(text, b"\7" + values.tobytes()))
    file = SafeTensorsFile(path)
    assert file.tensor_names == ["a", "z"]
    np.testing.assert_array_equal(file.load("z").to_numpy(), values)


def test_writer_refuses(tmp_path):
    path = tmp_path / "x.safetensors"
    x = gp.ones((2,), device="cpu")
    with pytest.raises(ValueError, match="__metadata__"):
        save_safetensors(path, {"__metadata__": x})
    with pytest.raises(TypeError, match="complex128"):
        save_safetensors(path, {"x": x.astype("complex128")})
    with pytest.raises(TypeError):
        save_safetensors(path, {3: x})
    with pytest.raises(OSError, match="nowhere"):
        save_safetensors(tmp_path / "nowhere" / "x", {"x": x})
    assert not path.exists()


GOOD = pack({"x": entry()}, bytes(8))
# What the file holds, and what the error says beside the path.
HOSTILE = {
    "empty file": (b"", "0 bytes"),
    "seven bytes": (bytes(7), "7 bytes"),
    "no header": (bytes(8), "begin with '{'"),
    "header past the end": (pack({}, length=3), "a header of 3 bytes, the file has"),
    "header a byte too long": (pack("{}", length=3), "a header of 3 bytes"),
    "header of 2^63": (pack("{}", length=1 << 63), "a header of 9223372036854775808 bytes"),
    "header of 2^64-1": (pack("{}", length=(1 << 64) - 1), "100000000 are the most"),
    "header over the bound": (pack("{}", length=100_000_001), "100000000 are the most"),
    "spaces first": (pack(" {}"), "begin with '{'"),
    "a list": (pack("[]"), "begin with '{'"),
    "a byte order mark": (pack("\ufeff{}"), "begin with '{'"),
    "not closed": (pack('{"x": '), "json"),
    "text behind": (pack("{} x"), "text after the value"),
    "zero bytes behind": (pack("{}\0\0"), "text after the value"),
    "a comment": (pack("{/**/}"), "json"),
    "a trailing comma": (pack('{"a": {},}'), "json"),
    "single quotes": (pack("{'a': 1}"), "json"),
    "invalid UTF-8": (pack(b'{"\xff": 1}'), "UTF-8"),
    "overlong UTF-8": (pack(b'{"\xc0\x80": 1}'), "UTF-8"),
    "a surrogate": (pack('{"\\ud800": 1}'), "surrogate"),
    "a control character": (pack('{"a\nb": 1}'), "control character"),
    "a bad escape": (pack('{"\\x": 1}'), "escape"),
    "deep lists": (pack('{"x": ' + "[" * 5000 + "]" * 5000 + "}"), "200 levels"),
    "deep objects": (pack('{"x":' * 3000 + "1" + "}" * 3000), "200 levels"),
    "NaN": (pack('{"x": NaN}'), "json"),
    "a huge number": (pack('{"x": 1e999}'), "too large"),
    "a tensor twice": (pack('{"x": %s, "x": %s}' % ((json.dumps(entry()),) * 2), bytes(8)), "used twice"),
    "a tensor twice, escaped": (pack('{"x": 1, "\\u0078": 2}'), "used twice"),
    "a member twice": (pack('{"x": {"dtype": "F32", "dtype": "F32"}}'), "used twice"),
    "metadata twice": (pack('{"__metadata__": {}, "__metadata__": {}}'), "used twice"),
    "metadata is a list": (pack({"__metadata__": []}), "__metadata__"),
    "metadata of numbers": (pack({"__metadata__": {"a": 1}}), "'a' is not a string"),
    "tensor is a list": (pack({"x": []}), "tensor 'x'.*not an object"),
    "tensor is null": (pack({"x": None}), "tensor 'x'.*not an object"),
    "no dtype": (pack({"x": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "tensor 'x'.*no dtype"),
    "no shape": (pack({"x": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)), "tensor 'x'.*no shape"),
    "no offsets": (pack({"x": {"dtype": "F32", "shape": [2]}}, bytes(8)), "tensor 'x'.*no data_offsets"),
    "unknown member": (pack({"x": entry(strides=[1])}, bytes(8)), "unknown member 'strides'"),
    "unknown dtype": (pack({"x": entry("F7")}, bytes(8)), "dtype 'F7' is not known"),
    "lower case dtype": (pack({"x": entry("f32")}, bytes(8)), "dtype 'f32' is not known"),
    "dtype of half bytes": (pack({"x": entry("F4")}, bytes(8)), "dtype 'F4' is not known"),
    "empty dtype": (pack({"x": entry("")}, bytes(8)), "dtype '' is not known"),
    "dtype is a number": (pack({"x": entry(32)}, bytes(8)), "dtype is not a string"),
    "shape is a number": (pack({"x": {**entry(), "shape": 2}}, bytes(8)), "shape is not a list"),
    "shape of text": (pack({"x": {**entry(), "shape": ["2"]}}, bytes(8)), "shape holds"),
    "shape of fractions": (pack({"x": {**entry(), "shape": [2.0]}}, bytes(8)), "shape holds"),
    "shape of truths": (pack({"x": {**entry(), "shape": [True]}}, bytes(8)), "shape holds"),
    "negative shape": (pack({"x": {**entry(), "shape": [-2]}}, bytes(8)), "shape holds"),
    "two negative extents": (pack({"x": {**entry(), "shape": [-1, -2]}}, bytes(8)), "shape holds"),
    "shape past int64": (pack({"x": {**entry(), "shape": [1 << 63]}}, bytes(8)), "shape holds"),
    "shape overflows": (pack({"x": entry(shape=(1 << 62, 8))}, bytes(8)), "too large"),
    "shape overflows to 0": (pack({"x": entry(shape=(1 << 32, 1 << 32))}, bytes(8)), "too large"),
    "shape overflows beside 0": (pack({"x": entry(shape=(0, 1 << 62, 8), end=0)}), "too large"),
    "nine axes": (pack({"x": entry(shape=[1] * 8 + [2])}, bytes(8)), "9 axes"),
    "ten thousand axes": (pack({"x": entry(shape=[1] * 10000)}, bytes(8)), "10000 axes"),
    "one offset": (pack({"x": {**entry(), "data_offsets": [0]}}, bytes(8)), "not two integers"),
    "three offsets": (pack({"x": {**entry(), "data_offsets": [0, 4, 8]}}, bytes(8)), "not two integers"),
    "offsets are an object": (pack({"x": {**entry(), "data_offsets": {}}}, bytes(8)), "not a list"),
    "negative offset": (pack({"x": entry(begin=-8, end=0)}, bytes(8)), "data_offsets holds"),
    "fraction as offset": (pack({"x": {**entry(), "data_offsets": [0, 8.0]}}, bytes(8)), "data_offsets holds"),
    "offset past int64": (pack({"x": entry(end=1 << 64)}, bytes(8)), "data_offsets holds"),
    "offsets backwards": (pack({"x": entry(begin=8, end=0)}, bytes(8)), "end before they begin"),
    "offset past the end": (pack({"x": entry(end=8)}, bytes(7)), "ends at byte 8 of the data, which has 7"),
    "offset of 2^63-1": (pack({"x": entry(end=(1 << 63) - 1)}, bytes(8)), "which has 8"),
    "too few bytes": (pack({"x": entry(end=7)}, bytes(7)), "takes 8 bytes, data_offsets span 7"),
    "too many bytes": (pack({"x": entry(end=9)}, bytes(9)), "takes 8 bytes, data_offsets span 9"),
    "bytes for none": (pack({"x": entry(shape=(0,), end=4)}, bytes(4)), "takes 0 bytes"),
    "hole at the start": (pack({"x": entry(begin=4, end=12)}, bytes(12)), "tensor 'x' at byte .* belong to no tensor"),
    "hole inside": (pack({"x": entry(), "y": entry(begin=9, end=17)}, bytes(17)), "tensor 'y'.*belong to no tensor"),
    "overlap": (pack({"x": entry(), "y": entry(begin=4, end=12)}, bytes(12)), "tensor 'y'.*overlaps tensor 'x'"),
    "same bytes twice": (pack({"x": entry(), "y": entry()}, bytes(8)), "tensor 'y'.*overlaps tensor 'x'"),
    "none inside another": (pack({"x": entry(), "y": entry(shape=(0,), begin=4, end=4)}, bytes(8)),
                            "tensor 'y'.*overlaps tensor 'x'"),
    "bytes behind": (pack({"x": entry()}, bytes(9)), "the file has"),
    "bytes and no tensor": (pack({}, bytes(1)), "the tensors end at byte 10, the file has 11"),
    "cut short": (GOOD[:-1], "which has 7"),
    "another format": (b"PK\x03\x04" + bytes(100), "header"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_file(tmp_path, kind):
    content, words = HOSTILE[kind]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=words) as error:
        SafeTensorsFile(path)
    assert str(path) in str(error.value) and isinstance(error.value, ValueError)


def test_empty_files_and_tensors_are_fine(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(pack({}))
    assert len(SafeTensorsFile(path)) == 0
    path.write_bytes(pack({"a": entry(shape=(0, 3), end=0), "b": entry(shape=(), end=4)}, b"\0\0\x80\x3f"))
    file = SafeTensorsFile(path)
    assert file.load("a").shape == (0, 3) and file.load("b").item() == 1.0


@pytest.mark.parametrize("keep", [0, 4, 70])
def test_file_that_shrinks(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    save_safetensors(path, {"x": gp.ones((1 << 20,), device="cpu")})
    file = SafeTensorsFile(path)
    os.truncate(path, file.tensor_info("x").offset + keep)
    for read in (file.load, file.tensor_bytes, file.tensor_as_f32, file.tensor_data_ptr):
        with pytest.raises(FormatError, match="tensor 'x' at byte .*become shorter"):
            read("x")


def test_what_is_no_plain_file(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for path in (tmp_path / "loop", tmp_path / "gone", tmp_path / "pipe.safetensors", "/dev/zero", tmp_path / "none"):
        with pytest.raises(OSError):
            SafeTensorsFile(path)
    (tmp_path / "good").write_bytes(GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "good")
    assert SafeTensorsFile(tmp_path / "link").tensor_bytes("x") == bytes(8)


def write_index(folder, weight_map, name="model.safetensors.index.json"):
    path = folder / name
    path.write_text(weight_map if isinstance(weight_map, str) else json.dumps({"weight_map": weight_map}))
    return path


def test_sharded(tmp_path, device):
    a, b = "model-1.safetensors", "model-2.safetensors"
    save_safetensors(tmp_path / a, {"x": gp.ones((2,)), "z": gp.ones((3,))})
    index = write_index(tmp_path, {"z": a, "y": b, "x": a})
    file = load_safetensors(index)
    assert isinstance(file, ShardedSafeTensorsFile) and file.tensor_names == ["z", "y", "x"]
    assert file.file_size == 0 and file.load("x").shape == (2,), "opened when a tensor is asked for"
    with pytest.raises(OSError, match=b):
        file.load("y")
    save_safetensors(tmp_path / b, {"y": gp.zeros((4,))})
    assert file.load("y").shape == (4,) and "y" in file and len(file) == 3
    assert file.file_size == sum((tmp_path / name).stat().st_size for name in (a, b))
    assert load_safetensors(tmp_path).path == str(index), "a folder leads to its index"
    with pytest.raises(ValueError, match="not to an index"):
        SafeTensorsFile(tmp_path)
    with pytest.raises(ValueError, match="index of several"):
        ShardedSafeTensorsFile(tmp_path / a)


@pytest.mark.parametrize("weight_map,words", [
    ("", "json"), ("[]", "no weight_map"), ("{}", "no weight_map"), ('{"weight_map": []}', "no weight_map"),
    ({}, "no weight_map"), ({"x": 1}, "tensor 'x'"), ({"x": "../a.safetensors"}, "same folder"),
    ({"x": "/etc/a.safetensors"}, "same folder"), ({"x": "a.bin"}, "same folder"), ({"x": ""}, "same folder"),
    ({"x": ".safetensors"}, "same folder"), ({"x": "a\\b.safetensors"}, "same folder"),
    ({"x": "a\0.safetensors"}, "same folder"), ('{"weight_map": {"x": "a", "x": "a"}}', "used twice"),
])
def test_hostile_index(tmp_path, weight_map, words):
    path = write_index(tmp_path, weight_map)
    with pytest.raises(FormatError, match=words) as error:
        load_safetensors(path)
    assert str(path) in str(error.value)


def test_index_that_is_wrong_about_a_file(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(GOOD)
    file = load_safetensors(write_index(tmp_path, {"x": "a.safetensors", "y": "a.safetensors"}))
    with pytest.raises(FormatError, match="tensor 'y' is not in .*a.safetensors"):
        file.load("x")


def test_folder(tmp_path):
    with pytest.raises(FormatError, match=r"no \.safetensors file"):
        load_safetensors(tmp_path)
    (tmp_path / "one.safetensors").write_bytes(GOOD)
    assert load_safetensors(tmp_path).path.endswith("one.safetensors")
    (tmp_path / "two.safetensors").write_bytes(GOOD)
    with pytest.raises(FormatError, match="2 files"):
        load_safetensors(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(GOOD)
    assert load_safetensors(tmp_path).path.endswith("model.safetensors")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    model = tmp_path / "hf" / "hub" / "models--owner--small"
    for revision in ("aaa", "bbb"):
        (model / "snapshots" / revision).mkdir(parents=True)
    (model / "blobs").mkdir()
    (model / "blobs" / "123").write_bytes(GOOD)
    (model / "snapshots" / "bbb" / "model.safetensors").symlink_to("../../blobs/123")
    return model


def test_model_of_the_cache(hub):
    with pytest.raises(OSError, match="2 revisions"):
        io.find_model("owner/small")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("bbb\n")
    assert io.find_model("owner/small") == str(hub / "snapshots" / "bbb")
    assert load_safetensors("owner/small").tensor_names == ["x"]
    assert io.find_model("owner/small", hub.parent) == io.find_model("owner/small")
    with pytest.raises(OSError, match=r"nor a model in .*elsewhere \(hf download owner/small .*\) is named owner/small"):
        io.find_model("owner/small", hub.parent / "elsewhere")
    (hub / "refs" / "main").write_text("../../..")
    with pytest.raises(FormatError, match="name of a revision"):
        io.find_model("owner/small")
    (hub / "refs" / "main").write_text("ccc")
    with pytest.raises(OSError, match="ccc"):
        io.find_model("owner/small")


@pytest.mark.parametrize("name", ["owner/large", "../small", "owner/../small", "a/b/c", "", "owner/", "/nowhere/at/all"])
def test_model_that_is_not_there(hub, name):
    with pytest.raises(OSError):
        io.find_model(name)


def test_real_weights(assets):
    file = load_safetensors(assets / "whisper-tiny")
    assert isinstance(file, ShardedSafeTensorsFile) and file.load("model.encoder.conv1.weight").shape == (384, 80, 3)
    stories = load_safetensors(assets / "stories260K")
    total = sum(stories.tensor_info(name).size_bytes for name in stories)
    assert stories.file_size > total > 1_000_000
