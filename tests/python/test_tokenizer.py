"""Tokenizers against the package `tokenizers`, over lines of a generator, and what each family's file says."""

import copy
import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit.llm import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FILES = ("stories260K", "stories15M", "tokenizers/gpt2", "tokenizers/qwen3", "tokenizers/mixtral-mistral-v0.1", "whisper-tiny")


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


compare = load_tool("compare_tokenizers")


def assert_equal_over(ours, theirs, lines, seed=7):
    rng = random.Random(seed)
    for text in compare.mixed_lines(lines, seed, compare.added_contents(theirs)):
        assert (found := compare.difference(ours, theirs, text, rng)) is None, found


@pytest.mark.parametrize("name", FILES)
def test_real_files_equal_tokenizers(assets, name):
    pytest.importorskip("tokenizers")
    assert compare.compare(assets / name, 4000, 3) is None


@pytest.mark.parametrize("name", FILES)
def test_real_files_give_the_golden_ids(assets, name):
    golden = json.loads((ROOT / "tests/data/tokenizer_golden.json").read_text(encoding="ascii"))
    tokenizer = Tokenizer(assets / name)
    assert len(golden[name]) >= 8
    for text, ids in golden[name]:
        assert tokenizer.encode(text) == ids


def byte_level(*, pattern=None, prefix=False):
    level = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": pattern is None}
    if pattern is None:
        return level
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, level]}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def added(first_id, **options):
    names = ("<one>", "<one>two", "wordy", " x ", "\u4e2d")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} | options
    return [{"id": first_id + i, "content": name, **flags} for i, name in enumerate(names)]


GPT2_VARIANTS = {
    "llama3": {"pre_tokenizer": byte_level(pattern=LLAMA3)},
    "prefix": {"pre_tokenizer": byte_level(prefix=True)},
    "nfc": {"normalizer": {"type": "NFC"}},
    **{option: {"added_tokens": added(50257, **{option: True})} for option in ("lstrip", "rstrip", "normalized", "special")},
    "both strips": {"added_tokens": added(50257, lstrip=True, rstrip=True)},
    "replaced": {"normalizer": {"type": "Replace", "pattern": {"String": "the"}, "content": "a wordy "}, "added_tokens": added(50257, normalized=True)},
}
STORIES_VARIANTS = {
    f"metaspace {scheme} {split}": {
        "normalizer": None,
        "pre_tokenizer": metaspace(scheme, split),
        "decoder": metaspace(scheme, split),
        "added_tokens": added(512),
    }
    for scheme in ("always", "first", "never")
    for split in (True, False)
} | {"no fallback": {"byte_fallback": False}, "no fusing": {"byte_fallback": False, "fuse_unk": False}}


def assert_variant_equal(path, changes):
    tokenizers = pytest.importorskip("tokenizers")
    file = json.loads(path.read_text(encoding="utf-8"))
    for name, value in copy.deepcopy(changes).items():
        (file["model"] if name in file["model"] else file)[name] = value
    text = json.dumps(file)
    assert_equal_over(Tokenizer.from_json(text), tokenizers.Tokenizer.from_str(text), 400)


@pytest.mark.parametrize("variant", GPT2_VARIANTS)
def test_byte_level_rules_equal_tokenizers(assets, variant):
    assert_variant_equal(assets / "tokenizers/gpt2/tokenizer.json", GPT2_VARIANTS[variant])


@pytest.mark.parametrize("variant", STORIES_VARIANTS)
def test_sentencepiece_rules_equal_tokenizers(assets, variant):
    assert_variant_equal(assets / "stories260K/tokenizer.json", STORIES_VARIANTS[variant])


def test_golden_ids(assets):
    tokenizer = Tokenizer(assets / "stories260K")
    for case in json.loads((assets / "stories260K/golden_tokens.json").read_text(encoding="utf-8"))["cases"]:
        assert tokenizer.encode(case["text"]) == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["text"]


@pytest.mark.parametrize(
    ("name", "size", "bos", "eos", "pad"),
    [
        ("stories260K", 512, 1, 2, None),
        ("stories15M", 32000, 1, 2, None),
        ("tokenizers/gpt2", 50257, 50256, 50256, None),
        ("tokenizers/qwen3", 151669, None, 151645, 151643),
        ("whisper-tiny", 51865, 50257, 50257, 50257),
    ],
)
def test_named_tokens(assets, name, size, bos, eos, pad):
    tokenizer = Tokenizer(assets / name)
    assert (len(tokenizer), tokenizer.vocab_size) == (size, size)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (bos, eos, pad)
    assert tokenizer.token_to_id(tokenizer.id_to_token(eos)) == eos
    assert eos in tokenizer.special_token_ids
    assert tokenizer.id_to_token(10**6) is None
    assert tokenizer.token_to_id("no such token") is None
    with pytest.raises(gp.OutOfRangeError, match="1000000"):
        tokenizer.decode([10**6])


def test_a_stream_gives_whole_characters_with_their_last_token(assets):
    tokenizer = Tokenizer(assets / "tokenizers/gpt2")
    text = "a \U0001f468\u200d\U0001f469 \u4f60\u597d e\u0301"
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces) and "" in pieces
    half = tokenizer.encode("\U0001f468")[:-1]
    assert [stream.push(token) for token in half] == [""] * len(half)
    assert stream.flush() == "\ufffd"
    assert stream.push(tokenizer.encode("b")[0]) == "b"


def test_the_package_tokenizers_where_asked_for(assets):
    pytest.importorskip("tokenizers")
    ours, theirs = Tokenizer(assets / "tokenizers/qwen3"), Tokenizer(assets / "tokenizers/qwen3", backend="tokenizers")
    text = "a \U0001f468\u200d\U0001f469 <|im_end|>"
    ids = theirs.encode(text)
    assert ids == ours.encode(text)
    stream = theirs.stream(skip_special_tokens=False)
    assert "".join(map(stream.push, ids)) + stream.flush() == text
    assert theirs.decode(ids) == ours.decode(ids)
    for name in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id", "special_token_ids", "chat_template"):
        assert getattr(theirs, name) == getattr(ours, name)
    assert theirs.id_to_token(theirs.token_to_id("<think>")) == "<think>"
    with pytest.raises(ValueError, match="backend"):
        Tokenizer(assets / "tokenizers/qwen3", backend="other")
