"""The English front end: words of numbers and signs, sentences, phonemes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pygpukit._core._english import Phonemizer, cut_phonemes, normalize_text, split_sentences

DATA = Path(__file__).parent.parent / "data"
EXPECTED = json.loads((DATA / "english_phonemes.json").read_text(encoding="utf-8"))
WORDS = (DATA / "english_words.txt").read_text().split()

NORMALISED = [
    ("1", "one"),
    ("42 apples", "forty two apples"),
    ("1,234 ships", "one thousand two hundred thirty four ships"),
    ("1000000", "one million"),
    (
        "123456789012",
        "one hundred twenty three billion four hundred fifty six million seven hundred eighty nine thousand twelve",
    ),
    ("0.5", "zero point five"),
    (".5", "zero point five"),
    ("3.14", "three point one four"),
    ("-7", "minus seven"),
    ("007", "zero zero seven"),
    ("1st 2nd 3rd 4th", "first second third fourth"),
    ("21st century", "twenty first century"),
    ("the 20th", "the twentieth"),
    ("12th", "twelfth"),
    ("in 1905", "in nineteen oh five"),
    ("in 1900", "in nineteen hundred"),
    ("in 1999", "in nineteen ninety nine"),
    ("in 2000", "in two thousand"),
    ("in 2007", "in two thousand seven"),
    ("in 2026", "in twenty twenty six"),
    ("the 1990s", "the nineteen nineties"),
    ("the '80s", "the eighties"),
    ("5280 feet", "five thousand two hundred eighty feet"),
    ("$5", "five dollars"),
    ("$1", "one dollar"),
    ("$5.20", "five dollars and twenty cents"),
    ("$0.99", "ninety nine cents"),
    ("$1.01", "one dollar and one cent"),
    ("$3.5 million", "three point five million dollars"),
    ("$2B", "two billion dollars"),
    ("\u00a31,234.50", "one thousand two hundred thirty four pounds and fifty pence"),
    ("\u20ac20", "twenty euros"),
    ("-$5", "minus five dollars"),
    ("5:30", "five thirty"),
    ("5:05", "five oh five"),
    ("12:00", "twelve o'clock"),
    ("17:45", "seventeen forty five"),
    ("8:05 AM", "eight oh five A.M."),
    ("5pm", "five P.M."),
    ("9 a.m. today", "nine A.M. today"),
    ("Jan. 3rd, 2021", "January third, twenty twenty one"),
    ("March 3", "March third"),
    ("18 November 2026", "the eighteenth of November twenty twenty six"),
    ("11/18/2026", "November eighteenth, twenty twenty six"),
    ("2026-11-18", "November eighteenth, twenty twenty six"),
    ("5 km", "five kilometers"),
    ("1 km", "one kilometer"),
    ("10kg", "ten kilograms"),
    ("60 mph", "sixty miles per hour"),
    ("3.5GHz", "three point five gigahertz"),
    ("20\u00b0C", "twenty degrees Celsius"),
    ("-40\u00b0F", "minus forty degrees Fahrenheit"),
    ("10%", "ten percent"),
    ("5 in the morning", "five in the morning"),
    ("6in", "six inches"),
    ("10-20 items", "ten to twenty items"),
    ("1990-1995", "nineteen ninety to nineteen ninety five"),
    ("1/2 cup", "one half cup"),
    ("3/4", "three quarters"),
    ("2/3", "two thirds"),
    ("24/7", "twenty four seven"),
    ("on 9/11", "on nine eleven"),
    ("16:9", "sixteen to nine"),
    ("6'2\" tall", "six feet two tall"),
    ("1.5TB/s", "one point five terabytes per second"),
    ("(555) 123-4567", "(five five five) one two three, four five six seven"),
    ("+1-800-555-0199", "plus one, eight zero zero, five five five, zero one nine nine"),
    ("Mon., Dec. 25", "Monday, December twenty fifth"),
    ("Jane, Ph.D., left", "Jane, P.H.D., left"),
    ("1920x1080", "one thousand nine hundred twenty by one thousand eighty"),
    ("3.11.4", "three point eleven point four"),
    ("555-1234", "five five five, one two three four"),
    ("Dr. Smith", "Doctor Smith"),
    ("Oak Dr. is long", "Oak Drive is long"),
    ("St. Paul", "Saint Paul"),
    ("12 Oak St.", "twelve Oak Street."),
    ("123 Main St. Floor 4", "one hundred twenty three Main Street. Floor four"),
    ("Mr. J. R. Smith", "Mister J R Smith"),
    ("No. 5", "number five"),
    ("No. I will not.", "No. I will not."),
    ("vs. them", "versus them"),
    ("e.g. this", "for example this"),
    ("i.e. that", "that is that"),
    ("Acme Inc. makes it", "Acme Incorporated makes it"),
    ("the U.S. border", "the U.S. border"),
    ("AT&T", "A.T. and T"),
    ("R&D and Q&A", "R and D and Q and A"),
    ("and/or", "and or"),
    ("C++ and C#", "C plus plus and C sharp"),
    ("#1", "number one"),
    ("#python", "hashtag python"),
    ("COVID-19", "COVID nineteen"),
    ("MP3", "MP three"),
    ("2 + 2 = 4", "two plus two equals four"),
    ("https://www.example.com/path", "W.W.W. dot example dot com slash path"),
    ("john.smith@example.org", "john dot smith at example dot org"),
    ("World War II", "World War two"),
    ("Henry VIII", "Henry the eighth"),
    ("Chapter IV", "Chapter four"),
    ("wait... what", "wait\u2026 what"),
    ("yes -- no", "yes \u2014 no"),
    ("yes\u2014no", "yes \u2014 no"),
    ("it\u2019s", "it's"),
    ('"hi"', "\u201chi\u201d"),
    ("\u00bd cup", "one half cup"),
    ("x\u00b2", "x squared"),
    ("\U0001f600 hello", "hello"),
    ("a\x00b\x07c", "a b c"),
    ("\uff28\uff49", "Hi"),
    ("", ""),
    ("one\n\ntwo", "one. two"),
    ("a wrapped\nline", "a wrapped line"),
    ("5\u20ac or 5 \u20ac", "five euros or five euros"),
    ("5.50\u20ac", "five euros and fifty cents"),
    ("$20-$30", "twenty to thirty dollars"),
    ("$20\u2013$30", "twenty to thirty dollars"),
    ("$20-30", "twenty to thirty dollars"),
    ("$1.50-$2", "one dollar and fifty cents to two dollars"),
    ("25%-30%", "twenty five to thirty percent"),
    ("25%\u201330%", "twenty five to thirty percent"),
    ("5mph-10mph", "five to ten miles per hour"),
    ("10:30-11:30", "ten thirty to eleven thirty"),
    ("9am-5pm", "nine A.M. to five P.M."),
    ("1980s-1990s", "nineteen eighties to nineteen nineties"),
    ("mid-1990s", "mid nineteen nineties"),
    ("mid-'90s", "mid nineties"),
    ("a 19th-century poet", "a nineteenth century poet"),
    ("a 3-year-old", "a three year-old"),
    ("$5/hr", "five dollars per hour"),
    ("\u00a33/kg", "three pounds per kilogram"),
    ("5 GB/day", "five gigabytes per day"),
    ("US$5", "five U.S. dollars"),
    ("C$10", "ten Canadian dollars"),
    ("$ 5", "five dollars"),
    ("$ 5 million", "five million dollars"),
    ("12/25", "December twenty fifth"),
    ("7/4", "July fourth"),
    ("01/05", "January fifth"),
    ("5/16", "five sixteenths"),
    ("10/10", "ten slash ten"),
    ("the year 1066", "the year ten sixty six"),
    ("in 1066, in 1000 ways", "in ten sixty six, in one thousand ways"),
    ("AD 476 and 44 BC", "AD four seventy six and forty four BC"),
    ("call 911", "call nine one one"),
    ("911 people", "nine hundred eleven people"),
    ("dr. who", "Doctor who"),
    ("12 oak dr. is long", "twelve oak Drive is long"),
    ("the Dr. is in", "the Doctor is in"),
    ("[Kokoro](/k\u02c8Ok\u0259\u0279O/) 2", "[Kokoro](/k\u02c8Ok\u0259\u0279O/) two"),
]

SPOKEN = [
    (
        "The quick brown fox jumps over the lazy dog.",
        "\u00f0\u0259 kw\u02c8\u026ak b\u0279\u02c8Wn f\u02c8\u0251ks \u02a4\u02c8\u028cmps \u02c8Ov\u0259\u0279 \u00f0\u0259 "
        "l\u02c8Azi d\u02c8\u0254\u0261.",
    ),
    ("the apple", "\u00f0i \u02c8\u00e6p\u1d4al"),
    ("to eagles", "t\u028a \u02c8i\u0261\u0259lz"),
    ("to an eagle", "t\u0259 \u0250n \u02c8i\u0261\u0259l"),
    ("to the", "t\u0259 \u00f0\u0259"),
    ("what to?", "w\u02cc\u028ct tu?"),
    ("jumped", "\u02a4\u02c8\u028cmpt"),
    ("wanted", "w\u02c8\u0251nt\u1d7bd"),
    ("waited", "w\u02c8AT\u1d7bd"),
    ("cities", "s\u02c8\u026aTiz"),
    ("dogs'", "d\u02c8\u0254\u0261z"),
    ("GPU", "\u02a4\u02ccip\u02ccij\u02c8u"),
    ("GPUs", "\u02a4\u02ccip\u02ccij\u02c8uz"),
    ("U.S.", "j\u02ccu\u02c8\u025bs."),
    ("I have read it", "\u02ccI h\u00e6v \u0279\u02c8\u025bd \u026at"),
    ("I will read it", "\u02ccI w\u026al \u0279\u02c8id \u026at"),
    ("the record", "\u00f0\u0259 \u0279\u02c8\u025bk\u0259\u0279d"),
    ("to record", "t\u0259 \u0279\u0259k\u02c8\u0254\u0279d"),
    ("They read books every day", "\u00f0\u02ccA \u0279\u02c8id b\u02c8\u028aks \u02c8\u025bv\u0259\u0279i d\u02c8A"),
    ("last year I read it", "l\u02c8\u00e6st j\u02c8\u026a\u0279 \u02ccI \u0279\u02c8\u025bd \u026at"),
    ("separate them", "s\u02c8\u025bp\u0259\u0279\u02ccAt \u00f0\u02cc\u025bm"),
    ("[xq](/h\u02c8I/) the end", "h\u02c8I \u00f0i \u02c8\u025bnd"),
]


@pytest.fixture(scope="module")
def lexicons(assets):
    folder = assets / "kokoro-g2p-misaki"
    return [str(folder / "us_gold.json"), str(folder / "us_silver.json")]


@pytest.fixture(scope="module")
def american(lexicons):
    return Phonemizer(*lexicons)


@pytest.mark.parametrize(("text", "words"), NORMALISED)
def test_normalised_text(text, words):
    assert normalize_text(text) == words


@pytest.mark.parametrize(("text", "phonemes"), SPOKEN)
def test_phonemes(american, text, phonemes):
    assert american(text).phonemes == phonemes


def test_words_sound_as_in_the_lexicon(american, lexicons):
    gold = json.loads(Path(lexicons[0]).read_text(encoding="utf-8"))
    assert len(WORDS) >= 300
    for word in WORDS:
        assert american(word).phonemes == gold[word].replace("\u027e", "T").replace("\u0294", "t"), word


@pytest.mark.parametrize(("kind", "count"), [("words", 300), ("phrases", 100)])
def test_expected_phonemes(american, kind, count):
    assert len(EXPECTED[kind]) >= count
    wrong = {text: said for text, said in EXPECTED[kind].items() if american(text).phonemes != said}
    assert wrong == {}


def test_golden_phonemes_but_for_one_stress(american, assets):
    golden = json.loads((assets / "kokoro-82m" / "golden_fox.json").read_text(encoding="utf-8"))
    wanted = golden["second_case_same_text"]["phonemes"]
    assert american(golden["text"]).phonemes == wanted.replace("\u02ccOv", "\u02c8Ov")


@pytest.mark.parametrize("word", ["Nishikawa", "Zorbliwump", "Krzyzewski", "brontolite", "Quexotic", "phlarn"])
def test_unknown_words_are_said(american, word):
    said = american(word)
    assert said.guessed == [word]
    assert "\u02c8" in said.phonemes
    assert sum(c in "AIOQWYaiu\u00e6\u0251\u0254\u0259\u025b\u025c\u026a\u028a\u028c" for c in said.phonemes) >= 1


def test_every_phoneme_has_an_id(american, assets):
    vocabulary = json.loads((assets / "kokoro-82m" / "config.json").read_text(encoding="utf-8"))["vocab"]
    text = " ".join(WORDS) + " " + " ".join(pair[0] for pair in NORMALISED)
    for lang in ("a", "b"):
        speak = american if lang == "a" else Phonemizer(*([""] * 2), lang)
        assert set(speak(text).phonemes) <= set(vocabulary)


def test_without_a_lexicon_the_rules_speak():
    said = Phonemizer()("Hello big world")
    assert said.guessed == ["world", "big", "Hello"]
    assert len(said.phonemes.split()) == 3


SPELLED = {
    "knife": "n\u02c8If", "wrist": "\u0279\u02c8\u026ast", "gnome": "n\u02c8Om", "sign": "s\u02c8In",
    "lamb": "l\u02c8\u00e6m", "lambs": "l\u02c8\u00e6mz", "climbing": "kl\u02c8\u026am\u026a\u014b",
    "number": "n\u02c8\u028cmb\u0259\u0279", "debts": "d\u02c8\u025bts", "castle": "k\u02c8\u00e6s\u0259l",
    "listen": "l\u02c8\u026as\u0259n", "autumn": "\u02c8\u0254t\u028cm", "whole": "h\u02c8Ol", "walk": "w\u02c8\u0254k",
    "folk": "f\u02c8Ok", "calm": "k\u02c8\u0251m", "half": "h\u02c8\u00e6f", "could": "k\u02c8\u028ad",
    "rough": "\u0279\u02c8\u028cf", "night": "n\u02c8It", "psychology": "sIk\u02c8\u0251l\u0259\u02a4i",
    "pterodactyl": "t\u025b\u0279\u02c8Od\u00e6kt\u026al", "knows": "n\u02c8Oz", "colonel": "k\u02c8\u025c\u0279n\u0259l",
    "this": "\u00f0\u02c8\u026as", "thesis": "\u03b8\u02c8\u025bs\u026as", "receipt": "\u0279\u026as\u02c8it",
    "foreign": "f\u02c8\u0254\u0279\u0259n", "one": "w\u02c8\u028cn", "eleven": "\u026al\u02c8\u025bv\u0259n", "hour": "\u02c8W\u0279",
}  # fmt: skip


@pytest.mark.parametrize("word", SPELLED)
def test_words_by_their_spelling_alone(word):
    assert Phonemizer()(word).phonemes == SPELLED[word]


def test_british_has_no_r_before_consonants(lexicons):
    british = Phonemizer(*lexicons, "b")
    assert british("the car park").phonemes == "\u00f0\u0259 k\u02c8\u0251\u02d0 p\u02c8\u0251\u02d0k"
    assert british("over and over").phonemes.startswith("\u02c8Qv\u0259\u0279 ")
    with pytest.raises(ValueError, match="lang must be 'a'"):
        Phonemizer(lang="x")


@pytest.mark.parametrize(("text", "sentences"), [
    ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    ("Dr. Smith left. He ran.", ["Dr. Smith left.", "He ran."]),
    ("On Jan. 3rd we met. Yes.", ["On Jan. 3rd we met.", "Yes."]),
    ("Pi is 3.14 or so. OK?", ["Pi is 3.14 or so.", "OK?"]),
    ("J. R. Smith came.", ["J. R. Smith came."]),
    ('He said "Go." Then left.', ['He said "Go."', "Then left."]),
    ("a wrapped\nline", ["a wrapped\nline"]),
    ("Title\nText here.", ["Title", "Text here."]),
    ("wait... what", ["wait... what"]),
    ("", []),
    (" \n ", []),
])  # fmt: skip
def test_sentences(text, sentences):
    assert split_sentences(text) == sentences


def test_cuts_at_the_best_place():
    assert cut_phonemes("aa. bb, cc dd", 8) == ["aa.", "bb,", "cc dd"]
    assert cut_phonemes("aa: bb, cc dd", 12) == ["aa:", "bb, cc dd"]
    assert cut_phonemes("aaaa bbbb", 6) == ["aaaa", "bbbb"]
    assert cut_phonemes("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert cut_phonemes("ab. \u201ccd.\u201d ef", 9) == ["ab. \u201ccd.\u201d", "ef"]
    assert cut_phonemes("", 510) == []
    with pytest.raises(ValueError, match="limit must be positive"):
        cut_phonemes("a", 0)


HOSTILE = ["a", ". ", "[a](/", "\u2026", "1", "-", "'", "A.", "1-", "a-", "..!", "a'", "Aa", "$5 ", "1:00", "\x00", '"(',
           "\U0001f600", "\u0416", "the quick brown fox. ", "\u0301", "\ufffd"]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_any_text_of_100000_characters(american, part):
    text = (part * 100000)[:100000]
    said = american(text)
    assert all(len(piece) <= 510 for piece in cut_phonemes(said.phonemes))
    assert sum(map(len, split_sentences(text))) <= 100000


def test_what_is_not_spoken_is_named(american):
    said = american("Hi \U0001f600 \u4f60 there")
    assert said.skipped == ["\U0001f600", "\u4f60"]
    assert said.phonemes == "h\u02c8I \u00f0\u02c8\u025b\u0279"


def test_damaged_lexicons_are_refused(tmp_path):
    bad = tmp_path / "bad.json"
    for content, reason in [("[]", "not an object"), ('{"a": 1}', "'a' has no phonemes"), ("{", "json")]:
        bad.write_text(content)
        with pytest.raises(ValueError, match=reason):
            Phonemizer(str(bad))
    with pytest.raises(OSError, match="missing"):
        Phonemizer(str(tmp_path / "missing.json"))
