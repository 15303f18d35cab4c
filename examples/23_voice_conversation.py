"""A conversation over WAV files: each is heard, answered and spoken to NAME.answer.wav.

    python 23_voice_conversation.py FOLDER question1.wav question2.wav ...

FOLDER holds whisper-tiny, stories15M (any language model) and kokoro-82m. Without it: how speech is found.
"""

import sys
from pathlib import Path

import numpy as np

from pygpukit.pipeline import SentenceBuffer, VoiceActivityDetector, create_voice_pipeline
from pygpukit.tts import concatenate_audio, from_wav, resample_audio, to_wav

RATE = 16000
tone = 0.1 * np.sin(2 * np.pi * 220 * np.arange(RATE) / RATE)
stream = np.concatenate([np.zeros(RATE), tone, np.zeros(RATE)]).astype("f4")
for event in VoiceActivityDetector().process_audio(stream):
    print(f"{event.event_type} at {event.timestamp:.2f} s, {event.duration:.2f} s of audio")

buffer = SentenceBuffer()
for piece in ("Hello. My n", "ame is Dr", ". Lee. How", " are you?"):
    buffer.append(piece)
    print(f"{piece!r} completes {buffer.extract_sentences()}")
print(f"at the end there is {buffer.flush()!r}")

if len(sys.argv) < 3:
    print("here: no models and files given")
    sys.exit()
folder = Path(sys.argv[1])
pipeline = create_voice_pipeline(folder / "whisper-tiny", folder / "stories15M", folder / "kokoro-82m")
pipeline.start_listening()
for path in sys.argv[2:]:
    samples, rate = from_wav(path)
    question = resample_audio(samples, rate, RATE).to_numpy()
    pieces = list(pipeline.process_audio(np.concatenate([question, np.zeros(RATE, "f4")])))
    if pieces:
        to_wav(concatenate_audio(pieces), Path(path).with_suffix(".answer.wav"))
for turn in pipeline.conversation_history:
    print(f"here: {turn.role}: {turn.text}")
