"""The functions of pygpukit.asr; internal."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import pygpukit._core
import pygpukit.core.dtypes
import pygpukit.typing


class WhisperConfig:
    """The sizes and tokens of a model, as config.json has them."""

    def __init__(self, **fields: Any) -> None: ...

    @staticmethod
    def from_dict(config_dict: dict[str, Any]) -> WhisperConfig: ...

    @staticmethod
    def from_json(json_path: pygpukit.typing.PathLike) -> WhisperConfig: ...

    @staticmethod
    def from_pretrained(model_path: pygpukit.typing.PathLike) -> WhisperConfig:
        """Of a folder, or of a model in the Hugging Face cache of this disk."""

    def to_dict(self) -> dict[str, Any]: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def is_distilled(self) -> bool: ...

    @property
    def activation_function(self) -> str: ...

    @property
    def suppress_tokens(self) -> list[int]: ...

    @property
    def begin_suppress_tokens(self) -> list[int]: ...

    def __eq__(self, arg: Any, /) -> bool: ...

    def __repr__(self) -> str: ...

    @property
    def d_model(self) -> int: ...

    @property
    def encoder_layers(self) -> int: ...

    @property
    def encoder_attention_heads(self) -> int: ...

    @property
    def encoder_ffn_dim(self) -> int: ...

    @property
    def decoder_layers(self) -> int: ...

    @property
    def decoder_attention_heads(self) -> int: ...

    @property
    def decoder_ffn_dim(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def num_mel_bins(self) -> int: ...

    @property
    def max_source_positions(self) -> int: ...

    @property
    def max_target_positions(self) -> int: ...

    @property
    def bos_token_id(self) -> int: ...

    @property
    def eos_token_id(self) -> int: ...

    @property
    def pad_token_id(self) -> int: ...

    @property
    def decoder_start_token_id(self) -> int: ...

class WhisperLayerWeights:
    """The weights of one layer, which stay where they are."""

    @property
    def index(self) -> int: ...

class WhisperWeights:
    """The weights of a model on a device."""

    def __init__(self, config: WhisperConfig, *, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None) -> None:
        """All of them 0, of these sizes."""

    @staticmethod
    def from_safetensors(path: pygpukit.typing.PathLike, config: WhisperConfig | None = None, *, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, quantize: pygpukit.typing.DTypeLike | None = None) -> WhisperWeights:
        """
        Of a file, an index, a folder or a model in the Hugging Face cache of this disk.
        """

    @property
    def config(self) -> WhisperConfig: ...

    @property
    def encoder_layers(self) -> list[WhisperLayerWeights]: ...

    @property
    def decoder_layers(self) -> list[WhisperLayerWeights]: ...

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType: ...

    @property
    def num_parameters(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def summary(self) -> str:
        """One line about them."""

class WhisperEncoderLayer:
    """One layer of the encoder."""

    def __init__(self, config: WhisperConfig, layer_weights: WhisperLayerWeights) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
        """[batch, positions, d_model] to the same, in the dtype of the weights."""

class WhisperEncoder:
    """Log-mel to what the decoder listens to."""

    def __init__(self, config: WhisperConfig, weights: WhisperWeights) -> None: ...

    @property
    def config(self) -> WhisperConfig: ...

    @property
    def layers(self) -> list[WhisperEncoderLayer]: ...

    def __call__(self, mel: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
        """float32 [batch, mels, 3000] or [mels, 3000] to [batch, 1500, d_model]."""

class WhisperCache:
    """What a decoder has heard and read so far."""

    @property
    def length(self) -> int:
        """Tokens read, of each text."""

class WhisperDecoderLayer:
    """One layer of the decoder."""

    def __init__(self, config: WhisperConfig, layer_weights: WhisperLayerWeights) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, encoder_hidden_states: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
        """
        [batch, tokens, d_model] to the same, each token seeing those before it and all of the sound.
        """

class WhisperDecoder:
    """Tokens and sound to logits, with caches of keys."""

    def __init__(self, config: WhisperConfig, weights: WhisperWeights) -> None: ...

    @property
    def config(self) -> WhisperConfig: ...

    @property
    def layers(self) -> list[WhisperDecoderLayer]: ...

    def __call__(self, input_ids: Any, encoder_hidden_states: pygpukit._core.GPUArray, past_key_values: WhisperCache | None = None) -> tuple[pygpukit._core.GPUArray, WhisperCache]:
        """
        (float32 logits [batch, tokens, vocab], cache to go on with) for ids [batch, tokens]; [tokens, vocab] for ids [tokens].
        """

    def generate(self, encoder_hidden_states: pygpukit._core.GPUArray, max_length: int = 448, temperature: float = 1.0, top_k: SupportsIndex | None = None, *, language: str | None = None, task: str = 'transcribe', timestamps: bool = False, seed: int = 0, graphs: bool | None = None) -> list[int] | list[list[int]]:
        """
        Token ids of the text, without the prompt and the end; a list of them for several sounds. `graphs`: a token is one graph; by default on a GPU.
        """

class TranscriptionWord:
    """A word and when it was said, in seconds."""

    @property
    def text(self) -> str:
        """With the space before it."""

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def probability(self) -> float: ...

    def __repr__(self) -> str: ...

class TranscriptionSegment:
    """A part of a text and when it was said, in seconds."""

    def __init__(self, text: str, start: float, end: float, tokens: Sequence[int] = []) -> None: ...

    @property
    def text(self) -> str: ...

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def tokens(self) -> list[int]:
        """Ids, with those of times."""

    @property
    def words(self) -> list[TranscriptionWord]:
        """Empty unless asked for."""

    @property
    def temperature(self) -> float:
        """It was drawn with."""

    @property
    def avg_logprob(self) -> float:
        """Of the tokens of its window."""

    @property
    def compression_ratio(self) -> float:
        """Of the text of its window."""

    @property
    def no_speech_prob(self) -> float:
        """That its window holds no speech."""

    def __repr__(self) -> str: ...

class WhisperTokenizer:
    """Text to token ids and back."""

    def __init__(self, model_path: pygpukit.typing.PathLike) -> None: ...

    def encode(self, text: str) -> list[int]:
        """Ids of the text alone."""

    def decode(self, ids: pygpukit.typing.Ints, skip_special_tokens: bool = True) -> str: ...

class Whisper:
    """A model in memory with its tokenizer."""

    def __init__(self, path: pygpukit.typing.PathLike, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, quantize: pygpukit.typing.DTypeLike | None = None) -> None: ...

    @property
    def config(self) -> WhisperConfig: ...

    @staticmethod
    def from_parts(config: WhisperConfig, encoder: WhisperEncoder, decoder: WhisperDecoder, tokenizer: WhisperTokenizer | None = None) -> Whisper: ...

    @property
    def encoder(self) -> WhisperEncoder: ...

    @property
    def decoder(self) -> WhisperDecoder: ...

    @property
    def weights(self) -> WhisperWeights: ...

    @property
    def languages(self) -> list[str]: ...

    def detect_language(self, samples: pygpukit._core.GPUArray) -> list[tuple[str, float]]:
        """
        (code, probability) of each language, likeliest first, by the first 30 s.
        """

class Transcriber:
    """One recording being written down, window by window."""

    def __init__(self, model: Whisper, samples: pygpukit._core.GPUArray, *, language: str | None = None, task: str = 'transcribe', max_length: int = 448, temperature: Any = 0.0, beam_size: int = 1, best_of: int = 1, patience: float = 1.0, length_penalty: float = -1.0, timestamps: bool = True, word_timestamps: bool = False, initial_prompt: str | None = None, condition_on_previous_text: bool = True, compression_ratio_threshold: Any | None = 2.4, logprob_threshold: Any | None = -1.0, no_speech_threshold: Any | None = 0.6, skip_silence: bool = False, batch_size: int = 1, suppress_tokens: bool = True, seed: int = 0, chunk_length: float = 30.0, overlap: float = 0.0, graphs: bool | None = None) -> None: ...

    def step(self) -> bool:
        """Writes down up to batch_size windows. False when nothing is left."""

    @property
    def segments(self) -> list[TranscriptionSegment]:
        """Those that are known so far."""

    @property
    def text(self) -> str: ...

    @property
    def language(self) -> str:
        """`en`; empty until it is known."""

    @property
    def duration(self) -> float:
        """Seconds of the recording."""

    @property
    def done(self) -> float:
        """Seconds that are behind it."""

class WhisperStream:
    """
    Speech written down while it is heard: words that stay, and text that may still change.
    """

    def __init__(self, model: Whisper, *, language: str | None = None, task: str = 'transcribe', temperature: Any = 0.0, beam_size: int = 1, initial_prompt: str | None = None) -> None: ...

    def push(self, samples: pygpukit._core.GPUArray) -> None:
        """float32 [n] at 16 kHz. Computes nothing."""

    def update(self) -> tuple[list[TranscriptionWord], str]:
        """(words that are new and stay, text after them as it is heard now)."""

    def finish(self) -> tuple[list[TranscriptionWord], str]:
        """The same for all that is left."""

    @property
    def language(self) -> str:
        """`en`; empty until a word is known."""

    @property
    def duration(self) -> float:
        """Seconds of sound so far."""

    @property
    def held(self) -> float:
        """Seconds of it that are kept, to be heard again."""

def whisper_mask(logits: pygpukit._core.GPUArray, texts: pygpukit._core.GPUArray, suppressed: pygpukit._core.GPUArray, *, end_of_text: int, no_timestamps: int, timestamp_begin: int, max_initial_timestamp: int = 50, timestamps: bool = True) -> None:
    """What may not be said next becomes -inf, in place."""

def whisper_advance(texts: pygpukit._core.GPUArray, tokens: pygpukit._core.GPUArray, *, end_of_text: int, no_timestamps: int, timestamp_begin: int) -> None:
    """The chosen tokens become those to be read, in place."""

def compression_ratio(text: str) -> float:
    """How far a text can be compressed."""
