"""Says 60 sentences with Kokoro and has Whisper write down what it hears: the word error rate, and faults of the sound.

    python bench/hear_speech.py --kokoro kokoro-82m --whisper whisper-tiny [--first N]

Both sides are compared as words: numbers written out, no punctuation. Exit code 1 when the rate is above 15 %, one
sentence is above 50 %, or a sample is above full scale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pygpukit.asr import WhisperModel
from pygpukit.tts import KokoroModel, KokoroTokenizer, SynthesisResult, resample_audio

SENTENCES = """\
The quick brown fox jumps over the lazy dog.
She sells sea shells by the sea shore.
It is 5:30 pm and the train leaves at 6:15.
Dr. Smith paid $5.20 for 2 kg of apples.
On March 3rd, 2021, we moved to New York.
Where did you put the keys to the car?
The 1990s were a great time for music.
About 10% of the people did not answer.
Mr. Brown and Mrs. Green met in Washington.
How much does this red jacket cost?
The temperature fell to -5 degrees last night.
Please close the door before you leave.
We have to be there by 8 o'clock.
The first man on the moon was Neil Armstrong.
He ran 42 kilometers in 3 hours.
What a beautiful morning it is!
Nobody knows what the future will bring.
The library opens at 9 in the morning.
My brother is 21 years old today.
London is the capital of England.
Can you hear the birds singing in the garden?
The price went up from $100 to $250.
I have read that book three times.
They will read the letter tomorrow.
Water boils at 100 degrees.
The meeting is on Monday, January 15th.
Is there a doctor in the house?
A journey of a thousand miles begins with a single step.
The children were playing football in the park.
In 1969 a man walked on the moon.
She bought 12 eggs, some milk and a loaf of bread.
You should never give up on your dreams.
The river flows slowly through the valley.
Henry VIII had six wives.
World War II ended in 1945.
Turn left at the second traffic light.
Why are you always late for school?
The old house at the end of the street is empty.
He speaks English, French and German.
The second half of the game was much better.
This computer has 16 gigabytes of memory.
Paris is one of the most visited cities in the world.
Her favorite color is blue, but she likes green too.
Thank you very much for your help!
The weather will be sunny and warm on Friday.
I would like a cup of coffee, please.
The plane to Chicago leaves from gate 22.
Do you want to go to the movies tonight?
The cat is sleeping on the chair by the window.
We need more time to finish the work.
Half of the class was sick last week.
The president gave a long speech on television.
Their new house has four bedrooms and a big garden.
My phone number is 555-1234.
Sarah and Michael are getting married in June.
The museum is closed on Tuesdays.
What is the name of the tallest mountain in the world?
The shop sells fresh fruit and vegetables.
It rained for 40 days and 40 nights.
All good things must come to an end.
""".splitlines()
VOICES = ("af_heart", "am_michael", "bf_emma", "af_bella", "bm_george", "am_adam")
SPEEDS = (1.0, 0.8, 1.15, 0.9, 1.3)
SPELLINGS = {"p.m.": "pm", "a.m.": "am", "colour": "color", "favourite": "favorite", "kilometres": "kilometers"}


def words(text: str, tokenizer: KokoroTokenizer) -> list[str]:
    text = re.sub(r"\b(\d{1,2}):?(\d\d) ?([ap])\.?m\b\.?", r"\1:\2 \3m", text)  # Whisper writes 530pm
    text = tokenizer.normalize_text(text).lower()
    for spelling, other in SPELLINGS.items():
        text = text.replace(spelling, other)
    return re.findall(r"[a-z]+", text.replace("'", "").replace(" and ", " "))


def distance(a: list[str], b: list[str]) -> int:
    """Words to add, drop or change."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@dataclass
class Heard:
    """What was understood of some sentences."""

    errors: int = 0
    total: int = 0
    worst: float = 0.0  # of one sentence
    loudest: float = 0.0

    def faults(self) -> list[str]:
        found = {
            "word error rate above 15 %": self.errors > 0.15 * self.total,
            "a sentence above 50 %": self.worst > 0.5,
            "a sample above full scale": self.loudest > 1,
        }
        return [fault for fault, there in found.items() if there]


def say(model: KokoroModel, i: int, round_: int = 0) -> SynthesisResult:
    """Sentence i in the voice and at the speed of its place; other ones in other rounds."""
    voice, speed = VOICES[(i + round_) % len(VOICES)], SPEEDS[(i + round_) % len(SPEEDS)]
    return model.synthesize(SENTENCES[i % len(SENTENCES)], voice=voice, speed=speed, limit_peak=False)


def hear(model: KokoroModel, ears: WhisperModel, numbers: Iterable[int]) -> Heard:
    """Says and writes down the sentences of these numbers, and prints each."""
    tokenizer, result = KokoroTokenizer(use_misaki=False), Heard()
    for i in numbers:
        said = say(model, i)
        samples = resample_audio(said.audio, 24000, 16000)
        text = ears.transcribe(samples.to_numpy(), 16000, language="en").text.strip()
        wanted, got = words(SENTENCES[i], tokenizer), words(text, tokenizer)
        wrong = distance(wanted, got)
        result.errors, result.total = result.errors + wrong, result.total + len(wanted)
        result.worst = max(result.worst, wrong / len(wanted))
        result.loudest = max(result.loudest, float(np.abs(said.to_numpy()).max()))
        print(f"{wrong:2d}/{len(wanted):2d} {VOICES[i % len(VOICES)]:10s} {SENTENCES[i]!r} -> {text!r}", flush=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kokoro", default="kokoro-82m")
    parser.add_argument("--whisper", default="whisper-tiny")
    parser.add_argument("--first", type=int, default=len(SENTENCES), help="how many sentences")
    arguments = parser.parse_args()
    model = KokoroModel.from_pretrained(arguments.kokoro, dtype="float32")
    heard = hear(model, WhisperModel.from_pretrained(arguments.whisper), range(arguments.first))
    rate = heard.errors / max(1, heard.total)
    print(f"word error rate {rate:.1%}, worst sentence {heard.worst:.0%}, loudest sample {heard.loudest:.3f}")
    for fault in heard.faults():
        print(fault)
    return int(bool(heard.faults()))


if __name__ == "__main__":
    sys.exit(main())
