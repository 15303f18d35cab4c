"""Speech in, speech out: Whisper, a language model and Kokoro in turn, sentence by sentence.

>>> from pygpukit.pipeline import SentenceBuffer
>>> buffer = SentenceBuffer()
>>> buffer.append("It costs 3.50 dollars. Dr. Lee")
>>> buffer.extract_sentences()
['It costs 3.50 dollars.']
>>> buffer.flush()
'Dr. Lee'
"""

from __future__ import annotations

from pygpukit._core._voice import SentenceBuffer
from pygpukit.pipeline.llm_tts import (
    LLMToTTSPipeline,
    LLMToTTSStats,
    StreamingTTSCallback,
    TTSChunk,
    speak,
)
from pygpukit.pipeline.vad import AudioBuffer, VADConfig, VADEvent, VADState, VoiceActivityDetector
from pygpukit.pipeline.voice import (
    ConversationTurn,
    PipelineState,
    PipelineStats,
    StageNote,
    VoicePipeline,
    VoicePipelineCallback,
    create_voice_pipeline,
)

__all__ = [
    "AudioBuffer",
    "ConversationTurn",
    "LLMToTTSPipeline",
    "LLMToTTSStats",
    "PipelineState",
    "PipelineStats",
    "SentenceBuffer",
    "StageNote",
    "StreamingTTSCallback",
    "TTSChunk",
    "VADConfig",
    "VADEvent",
    "VADState",
    "VoiceActivityDetector",
    "VoicePipeline",
    "VoicePipelineCallback",
    "create_voice_pipeline",
    "speak",
]
