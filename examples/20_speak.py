"""A sentence said aloud: from text to words, phonemes and a WAV file.

Needs Kokoro-82M in ./kokoro-82m, or in the folder given as the first argument, for the sound.
"""

import sys
from pathlib import Path

from pygpukit.tts import KokoroModel, KokoroTokenizer

TEXT = "On March 3rd, 2021 at 5:30 pm, Dr. Smith paid $5.20 for 2 kg of apples."

tokenizer = KokoroTokenizer(use_misaki=False)
print(tokenizer.normalize_text(TEXT))
for sentence in tokenizer.split_sentences("Mr. Lee left at 9 a.m. sharp. Did he? Yes!"):
    print("-", sentence)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "kokoro-82m")
if folder.is_dir():
    said = KokoroModel.from_pretrained(folder, dtype="float32").synthesize(TEXT)
    said.to_wav("speech.wav")
    print(f"here: speech.wav, {said.duration_sec:.1f} s: {said.phonemes}")
else:
    print(f"here: no model in {folder}, so no sound")
