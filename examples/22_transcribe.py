"""Speech written down, with the times of segments and words.

Needs whisper-tiny in ./whisper-tiny, or in the folder given as the first argument; a WAV file as the second.
"""

import sys
from pathlib import Path

from pygpukit.asr import WhisperModel, preprocess_audio

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "whisper-tiny")
recording = Path(sys.argv[2] if len(sys.argv) > 2 else "speech.wav")

silence = preprocess_audio([0.0] * 16000)
print(f"the model hears {silence.shape[0]} bands, {silence.shape[1]} times in 30 s")

if folder.is_dir() and recording.is_file():
    model = WhisperModel.from_pretrained(folder)
    result = model.transcribe(recording, word_timestamps=True, temperature=(0.0, 0.2, 0.4))
    for segment in result.segments:
        print(f"here: {segment.start:6.2f} {segment.end:6.2f}{segment.text}")
        for word in segment.words:
            print(f"here:   {word.start:6.2f} {word.probability:4.0%}{word.text}")
else:
    print(f"here: no model in {folder} or no {recording}, so no text")
