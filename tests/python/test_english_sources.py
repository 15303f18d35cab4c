"""Where phonemes are from: lexicons beside the voice, rules of spelling, the package misaki, the program espeak-ng."""

from __future__ import annotations

import json
import os
import sys

import pytest

from pygpukit._core._english import espeak_clauses
from pygpukit.tts import KokoroTokenizer

MISAKI = """
class Token:
    def __init__(self, text):
        self.text = text

class G2P:
    def __init__(self, version=None, trf=False, british=False, fallback=None, unk="?"):
        self.british, self.fallback = british, fallback

    def __call__(self, text):
        known = {"hot": "h\\u02c8\\u0252t" if self.british else "h\\u02c8\\u0251t"}
        words = [known.get(w) or self.fallback(Token(w))[0] for w in text.split()]
        return " ".join(words), []
"""

ESPEAK = """#!{python}
import sys
assert sys.argv[1:4] == ["-q", "--ipa", "-v"] and sys.argv[-1] == "--stdin", sys.argv
sounds = {{"en-us": {{"hello": "h\\u0259l\\u02c8o\\u028a", "there": "\\u00f0\\u02c8\\u025b\\u0279",
                     "judge": "d\\u0361\\u0292\\u02c8\\u028cd\\u0361\\u0292", "two": "t\\u02c8u\\u02d0",
                     "bird": "b\\u02c8\\u025c\\u02d0d", "water": "w\\u02c8\\u0254\\u02d0\\u027e\\u025a"}},
          "en-gb": {{"hello": "h\\u0259l\\u02c8\\u0259\\u028a", "there": "\\u00f0\\u02c8e\\u0259",
                     "judge": "d\\u0292\\u02c8\\u028cd\\u0292", "two": "t\\u02c8u\\u02d0",
                     "bird": "b\\u02c8\\u025c\\u02d0d", "water": "w\\u02c8\\u0254\\u02d0t\\u0259"}}}}[sys.argv[4]]
sys.stdout.buffer.write((" " + " ".join(sounds[w] for w in sys.stdin.read().split()) + "\\n").encode())
"""


@pytest.fixture
def small_lexicon(tmp_path):
    folder = tmp_path / "kokoro-g2p-misaki"
    folder.mkdir()
    folder.joinpath("us_gold.json").write_text(json.dumps({"colonel": "k\u02c8\u025c\u0279n\u0259l"}))
    (tmp_path / "kokoro-82m").mkdir()
    return tmp_path


@pytest.fixture
def misaki(tmp_path, monkeypatch):
    package = tmp_path / "modules" / "misaki"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text("")
    package.joinpath("en.py").write_text(MISAKI, encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    yield package.parent
    for name in [name for name in sys.modules if name.split(".")[0] in ("misaki", "en_core_web_sm")]:
        del sys.modules[name]


@pytest.fixture
def espeak(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "espeak-ng"
    program.parent.mkdir()
    program.write_text(ESPEAK.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])


def test_lexicons_beside_the_voice_are_found(small_lexicon, monkeypatch):
    said = KokoroTokenizer(use_misaki=False, model=small_lexicon / "kokoro-82m").encode("colonel")
    assert (said.phonemes, said.guessed, said.source) == ("k\u02c8\u025c\u0279n\u0259l", [], "lexicons")
    monkeypatch.chdir(small_lexicon)
    assert KokoroTokenizer(use_misaki=False).text_to_phonemes("colonel") == "k\u02c8\u025c\u0279n\u0259l"
    assert KokoroTokenizer(lang="b", use_misaki=False).encode("colonel").source == "American lexicons"
    named = KokoroTokenizer(use_misaki=False, model=small_lexicon / "none", lexicons="kokoro-g2p-misaki")
    assert named.source == "lexicons" and named.lexicons[0].endswith("us_gold.json") and named.lexicons[1] == ""


def test_without_lexicons_the_result_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = KokoroTokenizer(use_misaki=False).encode("knows \U0001f600 this")
    assert (said.source, said.guessed, said.skipped) == ("spelling", ["this", "knows"], ["\U0001f600"])
    assert said.phonemes == "n\u02c8Oz \u00f0\u02c8\u026as"


@pytest.mark.parametrize("folder", ["/nonexistent", ""])
def test_a_folder_without_lexicons_is_refused(folder, tmp_path):
    with pytest.raises((LookupError, OSError, ValueError), match="/nonexistent|empty"):
        KokoroTokenizer(lexicons=folder)
    with pytest.raises((LookupError, OSError), match="us_gold.json"):
        KokoroTokenizer(lexicons=tmp_path)


@pytest.mark.parametrize("lang", ["a", "b"])
def test_misaki_is_used_with_our_rules_for_unknown_words(misaki, small_lexicon, lang):
    (misaki / "en_core_web_sm").mkdir()
    (misaki / "en_core_web_sm" / "__init__.py").write_text("")
    said = KokoroTokenizer(lang=lang, model=small_lexicon / "kokoro-82m").encode("hot phlarn hot \U0001f600")
    hot = "h\u02c8\u0251t" if lang == "a" else "h\u02c8\u0252t"
    assert said.source == "misaki" and (said.guessed, said.skipped) == (["phlarn"], ["\U0001f600"])
    assert said.phonemes.split()[0] == said.phonemes.split()[2] == hot
    assert said.phonemes.split()[1].startswith("fl")
    assert KokoroTokenizer(lang=lang, use_misaki=False, model=small_lexicon / "kokoro-82m").source != "misaki"


def test_misaki_without_its_model_is_not_used(misaki, small_lexicon):
    """It would fetch the model from the network."""
    assert KokoroTokenizer(lang="b", model=small_lexicon / "kokoro-82m").source == "American lexicons"


def test_misaki_that_cannot_be_imported_is_not_used(misaki, small_lexicon):
    (misaki / "en_core_web_sm").mkdir()
    (misaki / "misaki" / "en.py").write_text("import a_module_that_is_missing\n")
    assert KokoroTokenizer(model=small_lexicon / "kokoro-82m").source == "lexicons"


@pytest.mark.parametrize(("lang", "text", "phonemes"), [
    ("a", "hello there", "h\u0259l\u02c8O \u00f0\u02c8\u025b\u0279"),
    ("b", "hello there", "h\u0259l\u02c8Q \u00f0\u02c8\u025b\u02d0"),
    ("a", "judge, 2.", "\u02a4\u02c8\u028c\u02a4, t\u02c8u."),
    ("b", "judge, 2.", "\u02a4\u02c8\u028c\u02a4, t\u02c8u\u02d0."),
    ("a", "bird water?", "b\u02c8\u025c\u0279d w\u02c8\u0254T\u0259\u0279?"),
    ("b", "bird water?", "b\u02c8\u025c\u02d0d w\u02c8\u0254\u02d0t\u0259?"),
    ("a", "hello [xq](/h\u02c8I/) there", "h\u0259l\u02c8O h\u02c8I \u00f0\u02c8\u025b\u0279"),
    ("a", "hello \u2014 there", "h\u0259l\u02c8O \u2014 \u00f0\u02c8\u025b\u0279"),
    ("a", "", ""),
])  # fmt: skip
def test_espeak_in_the_alphabet_of_kokoro(espeak, lang, text, phonemes, assets):
    said = KokoroTokenizer(lang=lang, use_espeak=True).encode(text)
    assert (said.phonemes, said.source) == (phonemes, "espeak-ng")
    vocabulary = json.loads((assets / "kokoro-82m" / "config.json").read_text(encoding="utf-8"))["vocab"]
    assert set(said.phonemes) <= set(vocabulary)


def test_absent_espeak_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="espeak-ng is not installed"):
        KokoroTokenizer(use_espeak=True).text_to_phonemes("hello")


def test_a_failing_espeak_is_named(espeak):
    with pytest.raises(RuntimeError, match="espeak-ng ended with 1: (?s:.*)KeyError"):
        KokoroTokenizer(use_espeak=True).text_to_phonemes("unknowable")


@pytest.mark.parametrize("part", ["a", "a ", "A.", "A. ", ". ", "[a](/", "ab, ", "\u2014 ", "1-", "\U0001f600"])
@pytest.mark.parametrize("normalize", [True, False])
def test_clauses_of_any_text_of_100000_characters(part, normalize):
    clauses, skipped = espeak_clauses((part * 100000)[:100000], normalize)
    assert all(any(c.isalpha() for c in text) for text, said in clauses if said)
    assert skipped == (["\U0001f600"] if part == "\U0001f600" else skipped)


@pytest.mark.parametrize(("text", "words"), [
    ("The U.S. border, at 5 p.m. today.", ["The U S  border", "at five P M  today"]),
    ("One. Two!", ["One", "Two"]),
    ("Mr. J. R. Smith", ["Mister J R Smith"]),
])  # fmt: skip
def test_clauses_end_at_marks(text, words):
    assert [clause for clause, said in espeak_clauses(text)[0] if said] == words
