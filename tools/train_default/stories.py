"""Writes stories by the grammar, and checks whether a text is one: ``python stories.py 5``."""

from __future__ import annotations

import random
import re
import sys

from grammar import BOYS, ENDING, GIRLS, ONE_DAY, OPENING, PLACES, PLOTS, SLOTS, sentences

SLOT = re.compile(r"<(a )?([A-Za-z0-9]+)(\+?)>")


def _article(word: str) -> str:
    return ("an " if word[0] in "aeiou" else "a ") + word


def _fill(template: str, words: dict[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        word = words[match[2]]
        if match[1]:
            return _article(word)
        return word[0].upper() + word[1:] if match[3] else word

    text = SLOT.sub(one, template)
    # <size> <gift> and the like after a plain "a" that needs "an".
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text


def _pronouns(words: dict[str, str], name: str, prefix: str) -> None:
    girl = name in GIRLS
    words[prefix + "he"], words[prefix + "his"] = ("she", "her") if girl else ("he", "his")
    words[prefix + "He"] = "She" if girl else "He"
    if not prefix:
        words["him"] = "her" if girl else "him"


def write(rng: random.Random) -> str:
    """One story: three short paragraphs."""
    words = {slot: rng.choice(choices) for slot, choices in SLOTS.items()}
    words["friend"] = rng.choice([name for name in GIRLS + BOYS if name != words["hero"]])
    for slot, other in (("mood2", "mood"), ("part2", "part")):
        while words[slot] == words[other]:
            words[slot] = rng.choice(SLOTS[slot])
    for who, kind in (("hero", "kind"), ("friend", "kind2")):
        wrong = "boy" if words[who] in GIRLS else "girl"
        while words[kind] == wrong:
            words[kind] = rng.choice(SLOTS[kind])
    words["spot"], words["spot2"] = rng.sample(PLACES[words["place"]], 2)
    _pronouns(words, words["hero"], "")
    _pronouns(words, words["friend"], "f")
    # The gift's sentence speaks of the hero's friend.
    words["fhis"] = words["his"]
    first = [rng.choice(OPENING[0]), rng.choice(OPENING[1][3:])]
    if rng.random() < 0.5:
        first.insert(1, rng.choice(OPENING[1][:3]))
    plot = rng.choice(list(PLOTS.values()))
    middle = [rng.choice(ONE_DAY), *(rng.choice(step) for step in plot)]
    last = [rng.choice(ENDING[0]), rng.choice(ENDING[1])]
    return "\n".join(" ".join(_fill(sentence, words) for sentence in part) for part in (first, middle, last))


def _pattern(template: str) -> str:
    out, end = [], 0
    for match in SLOT.finditer(template):
        out.append(re.escape(template[end : match.start()]))
        choices = SLOTS[match[2]]
        if match[1]:
            choices = [_article(word) for word in choices]
        elif match[3]:
            choices = [word[0].upper() + word[1:] for word in choices]
        out.append("(?:" + "|".join(map(re.escape, choices)) + ")")
        end = match.end()
    out.append(re.escape(template[end:]))
    # "a" written before a slot may have become "an".
    return re.sub(r"\\ a\\ \(\?:", r"\\ an?\\ (?:", "".join(out))


_SENTENCES = [re.compile(_pattern(template)) for template in sentences()]


def parses(text: str) -> bool:
    """Whether the text is a row of whole sentences of the grammar, at least five."""
    text = text.strip()
    reached = {0: 0}  # position: sentences before it
    while reached:
        at = min(reached)
        count = reached.pop(at)
        for sentence in _SENTENCES:
            match = sentence.match(text, at)
            if not match:
                continue
            if match.end() == len(text):
                if count + 1 >= 5:
                    return True
            elif text[match.end()] in " \n":
                reached[match.end() + 1] = count + 1
    return False


def first_fault(text: str) -> str:
    """The first piece that no sentence of the grammar matches, for people."""
    for piece in re.split(r"(?<=[.!?])[ \n]|(?<=[.!?]\")[ \n]", text.strip()):
        if not any(sentence.fullmatch(piece) for sentence in _SENTENCES):
            return piece
    return ""


if __name__ == "__main__":
    source = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(write(source), end="\n\n")
