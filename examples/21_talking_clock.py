"""A talking clock: the time in words, chunk by chunk as it is made.

Needs Kokoro-82M in ./kokoro-82m, or in the folder given as the first argument, for the sound.
"""

import sys
from datetime import datetime
from pathlib import Path

from pygpukit.tts import KokoroModel, KokoroTokenizer, concatenate_audio, to_wav

tokenizer = KokoroTokenizer(use_misaki=False)
for time in ("9:05 AM", "12:00", "17:45", "11:59 PM"):
    print(f"{time}: {tokenizer.normalize_text(f'It is {time}.')}")

now = datetime.now()
text = f"Hello. It is {now:%I:%M %p} on {now:%B} {now.day}, {now.year}."
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "kokoro-82m")
if folder.is_dir():
    model = KokoroModel.from_pretrained(folder, voice="bm_george", dtype="float32")
    chunks = list(model.generate_stream(text, chunk_size=2400))
    to_wav(concatenate_audio(chunks), "clock.wav")
    print(f"here: clock.wav in {len(chunks)} chunks: {tokenizer.normalize_text(text)}")
else:
    print(f"here: no model in {folder}, so no sound: {tokenizer.normalize_text(text)}")
