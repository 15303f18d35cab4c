"""Compares our tokenizer with the package `tokenizers`: ids of mixed text, text of ids, streams, round trips.

    python tools/compare_tokenizers.py [FOLDER OR tokenizer.json ...] [--lines 100000] [--seed 1]

Without files: those of PYGPUKIT_ASSETS, one of several that are the same. Files are compared side by side, one on each
core. Prints one line a file, and the first difference; exits 1 when there is one.
With --golden FILE it writes a few lines and their ids by `tokenizers` instead, for machines without the package.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

COMMON = """
    the of and to in is you that it he was for on are with as his they be at one have this from or had by hot
    but some what there we can out other were all your when up use how said an each she which do their time if
    will way about many then them would write like so these her long make thing see him two has look more day
    could go come did my sound no most number who over know water than call first people I'm I'LL you've We'd
    it's IT'S don't they're o'clock rock'n'roll 'tis 'sup John's 'S 'RE naive cafe
"""
WORDS = COMMON.split()
CODE = (
    "def f(x):\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
    '{"key": [1, 2.5e-3, null, true], "s": "\\u00e9\\n"}',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    "<div class=\"a\">&nbsp;</div>\t<!-- c -->",
    "\tif err != nil {\r\n\t\treturn err\r\n\t}\r\n\r\n",
    "https://example.org/a?b=c&d=%20#e user@example.org C:\\temp\\new",
    "#include <vector>\n\n\n    std::vector<int> v{1, 2, 3};   \n",
)
# First and last code points of scripts, signs and marks.
SCRIPTS = (
    (0x20, 0x7E), (0x00, 0x1F), (0x7F, 0xA0), (0xA1, 0x17F), (0x180, 0x24F), (0x250, 0x2FF), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF), (0x600, 0x6FF), (0x700, 0x7FF), (0x900, 0x97F), (0x980, 0xA7F),
    (0xB80, 0xCFF), (0xE00, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F),
    (0x1680, 0x180E), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x20CF), (0x20D0, 0x20FF), (0x2100, 0x23FF),
    (0x2500, 0x27BF), (0x2900, 0x2FFF), (0x3000, 0x30FF), (0x3130, 0x33FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFE2F),
    (0xFF00, 0xFFFD), (0x10000, 0x105FF), (0x10800, 0x12FFF), (0x13000, 0x16FFF), (0x1D100, 0x1D7FF),
    (0x1E000, 0x1EFFF), (0x1F000, 0x1FAFF), (0x1FB00, 0x1FBFF), (0x20000, 0x2FA1F), (0x30000, 0x323AF),
    (0xE0000, 0xE01EF), (0xF0000, 0x10FFFD),
)  # fmt: skip
EMOJI = (
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f",
    "\U0001f1ea\U0001f1fa", "1\ufe0f\u20e3",
)
SPACES = (
    " ", "  ", "   ", "\n", "\n\n", " \n", "\r\n", "\t", " \t ", "\u3000", "\u00a0", "\u2028", "\u0085",
    "\x0b", "\x0c", "\u200b", "\u2581",
)
ACCENTS = (
    "e\u0301", "a\u0328\u0301", "o\u0302\u0323", "\u1112\u1161\u11ab", "\u0915\u093c", "\u212b",
    "\u1e9b\u0323", "\u0344", "\ufb2c", "'\u017f",
)


def script_run(rng: random.Random) -> str:
    first, last = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 12)))


def any_points(rng: random.Random) -> str:
    points = (rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))) for _ in range(rng.randint(1, 6)))
    return "".join(map(chr, points))


def digits(rng: random.Random) -> str:
    return rng.choice(("", "-", "$")) + str(rng.randrange(10 ** rng.randint(1, 9))) + rng.choice(("", "%", ".5", ",000", "th"))


def repeated(rng: random.Random) -> str:
    return rng.choice("a.=- \n!#x0\u4e2d") * rng.randint(2, 40)


def mixed_line(rng: random.Random, tokens: list[str]) -> str:
    """A line of random pieces: words, code, scripts, emoji, marks, control characters, decoded bytes, added tokens."""
    pieces = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8, 20))):
        kind = rng.randrange(14)
        if kind < 3:
            pieces.append(" ".join(rng.choices(WORDS, k=rng.randint(1, 8))))
        elif kind == 3:
            pieces.append(rng.choice(CODE))
        elif kind == 4:
            pieces.append(rng.choice(EMOJI))
        elif kind == 5:
            pieces.append(rng.choice(ACCENTS))
        elif kind == 6:
            pieces.append(rng.randbytes(rng.randint(1, 12)).decode("utf-8", "replace"))
        elif kind == 7:
            pieces.append(digits(rng))
        elif kind == 8:
            pieces.append(any_points(rng))
        elif kind == 9:
            pieces.append(repeated(rng))
        elif kind == 10 and tokens:
            pieces.append(rng.choice(tokens))
        elif kind == 11:
            pieces.append(rng.choice(WORDS).upper() + rng.choice(("", "!", "?!", "...", "\u2019s")))
        else:
            pieces.append(script_run(rng))
        if rng.random() < 0.6:
            pieces.append(rng.choice(SPACES))
    return "".join(pieces)


def mixed_lines(count: int, seed: int, tokens: list[str]) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(count):
        yield mixed_line(rng, tokens)


def difference(ours: Any, theirs: Any, text: str, rng: random.Random) -> str | None:
    """What differs between the two for one line, or None. `theirs` is a tokenizers.Tokenizer."""
    ids = ours.encode(text)
    if ids != (expected := theirs.encode(text).ids):
        return f"ids of {text!r}:\n  ours   {ids}\n  theirs {expected}"
    bare = ours.encode(text, add_special_tokens=False)
    if bare != (expected := theirs.encode(text, add_special_tokens=False).ids):
        return f"ids of {text!r} without special tokens:\n  ours   {bare}\n  theirs {expected}"
    shuffled = rng.sample(ids, len(ids))
    # Theirs keeps special tokens that are normalised where it should leave them out.
    special = set(ours.special_token_ids)
    for some in (ids, shuffled):
        for skip in (True, False):
            decoded = ours.decode(some, skip_special_tokens=skip)
            kept = [token for token in some if not (skip and token in special)]
            if decoded != (wanted := theirs.decode(kept, skip_special_tokens=False)):
                return f"text of {some}, skip {skip}:\n  ours   {decoded!r}\n  theirs {wanted!r}"
    stream = ours.stream(skip_special_tokens=False)
    pieces = [stream.push(token) for token in ids] + [stream.flush()]
    if "".join(pieces) != ours.decode(ids, skip_special_tokens=False):
        return f"the stream of {ids} is {pieces}"
    return None


def added_contents(theirs: Any) -> list[str]:
    return [token.content for token in theirs.get_added_tokens_decoder().values()]


def compare(path: Path, lines: int, seed: int) -> str | None:
    import tokenizers

    import pygpukit.llm

    file = path / "tokenizer.json" if path.is_dir() else path
    ours, theirs = pygpukit.llm.Tokenizer(file), tokenizers.Tokenizer.from_file(str(file))
    if len(ours) != theirs.get_vocab_size():
        return f"{len(ours)} tokens, not {theirs.get_vocab_size()}"
    special = sorted(token for token, added in theirs.get_added_tokens_decoder().items() if added.special)
    if ours.special_token_ids != special:
        return f"special tokens {ours.special_token_ids}, not {special}"
    rng = random.Random(seed)
    for text in mixed_lines(lines, seed, added_contents(theirs)):
        if found := difference(ours, theirs, text, rng):
            return found
    return None


def timed(path: Path, lines: int, seed: int) -> tuple[str | None, float]:
    start = time.perf_counter()
    return compare(path, lines, seed), time.perf_counter() - start


def different(files: list[Path]) -> list[Path]:
    """The first of each content."""
    return list({path.read_bytes(): path for path in reversed(files)}.values())[::-1]


def assets_folder() -> Path:
    folder = os.environ.get("PYGPUKIT_ASSETS")
    if not folder:
        sys.exit("name files, or set PYGPUKIT_ASSETS")
    return Path(folder)


def write_golden(path: Path, seed: int) -> None:
    """Short lines and their ids, for each tokenizer of PYGPUKIT_ASSETS."""
    import tokenizers

    golden = {}
    for file in sorted(assets_folder().rglob("tokenizer.json")):
        theirs = tokenizers.Tokenizer.from_file(str(file))
        lines = mixed_lines(40, seed, added_contents(theirs))
        name = file.parent.relative_to(assets_folder()).as_posix()
        golden[name] = [[text, theirs.encode(text).ids] for text in lines if 0 < len(text) < 24]
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(cases)}" for name, cases in golden.items())
    path.write_text(f"{{\n{rows}\n}}\n", encoding="ascii")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--golden", type=Path)
    options = parser.parse_args()
    if options.golden:
        write_golden(options.golden, options.seed)
        return 0
    files = options.files or different(sorted(assets_folder().rglob("tokenizer.json")))
    failed = False
    with ProcessPoolExecutor(min(len(files), os.cpu_count() or 1)) as pool:
        results = pool.map(partial(timed, lines=options.lines, seed=options.seed), files)
        for path, (found, seconds) in zip(files, results, strict=True):
            print(f"{path}: {found or f'{options.lines} lines equal, {seconds:.0f} s'}", flush=True)
            failed = failed or found is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
