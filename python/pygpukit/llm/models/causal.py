"""A language model: text goes on, token by token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit._core._llm import Engine as Engine
from pygpukit._core._llm import Token as Token
from pygpukit._core._llm import Transformer as _Transformer

if TYPE_CHECKING:
    from pygpukit import GPUArray
    from pygpukit._core import Device, Weight
    from pygpukit.core.dtypes import DataType
    from pygpukit.llm.config import ModelSpec, TransformerConfig
    from pygpukit.typing import DeviceLike, DTypeLike, PathLike

    KeysValues = list[tuple[GPUArray, GPUArray]]

__all__ = ["CausalTransformerModel", "Engine", "Token"]


class CausalTransformerModel:
    """A decoder of GPT-2's or LLaMA's kind. Load one with load_model_from_safetensors."""

    def __init__(self, core: _Transformer, spec: ModelSpec | None = None):
        self._core = core
        self._engine: Engine | None = None
        self.spec = spec

    @classmethod
    def from_safetensors(
        cls,
        path: PathLike,
        dtype: DTypeLike | None = "float32",
        *,
        device: DeviceLike = None,
        quantize: DTypeLike | None = None,
        group: int = 0,
        spec: ModelSpec | None = None,
    ) -> CausalTransformerModel:
        """From a file, an index, a folder or a name in the Hugging Face cache.

        dtype: of activations and of matrices that stay dense; None: as the checkpoint has them. quantize: 'float8_e4m3',
        'int8', 'int4' or 'float4_e2m1' for the matrices of the layers, with a scale for `group` columns.
        """
        return cls(_Transformer.load(path, device, dtype, quantize, group, spec), spec)

    @property
    def config(self) -> TransformerConfig:
        return self._core.config

    @property
    def dtype(self) -> DataType:
        """Of activations."""
        return self._core.dtype

    @property
    def device(self) -> Device:
        return self._core.device

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that one token of one sequence reads."""
        return self._core.weight_bytes

    @property
    def embed_tokens(self) -> GPUArray:
        return self._core.embed_tokens

    @property
    def position_embed(self) -> GPUArray | None:
        return self._core.position_embed

    @property
    def lm_head(self) -> Weight | None:
        """None where the embedding serves as head."""
        return None if self._core.head_is_tied else self._core.head

    def __call__(
        self,
        input_ids: Sequence[int],
        position_ids: Sequence[int] | None = None,
        past_key_values: KeysValues | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, KeysValues | None]:
        """Hidden states [tokens, hidden]; with use_cache also keys and values [tokens so far, kv_heads, dim] a layer.

        Positions go on after those of past_key_values; position_ids may only repeat them.
        """
        return self._core.forward(input_ids, position_ids, past_key_values, use_cache)

    def get_logits(self, hidden: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """hidden [rows, hidden] as logits [rows, vocab]."""
        return self._core.logits(hidden, out=out)

    def engine(self, **options: Any) -> Engine:
        """An engine for many requests at a time; options as Engine takes them."""
        return Engine(self._core, **options)

    def stream(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        *,
        logprobs: bool = False,
        top_logprobs: int = 0,
        engine: Engine | None = None,
        **sampling: Any,
    ) -> Iterator[Token]:
        """New tokens with their log-probabilities and why they ended; `sampling` as Engine.submit takes it."""
        chosen = engine or self._engine_for(len(input_ids) + max_new_tokens, logprobs, top_logprobs)
        request = chosen.submit(input_ids, max_new_tokens, **sampling)
        try:
            while True:
                token = chosen.next(request)
                yield token
                if token.finish is not None:
                    return
        finally:
            chosen.cancel(request)

    async def stream_async(
        self, input_ids: Sequence[int], max_new_tokens: int = 20, *, engine: Engine | None = None, **sampling: Any
    ) -> AsyncIterator[Token]:
        """The same for asyncio: other coroutines run between tokens."""
        chosen = engine or self._engine_for(len(input_ids) + max_new_tokens, False, 0)
        request = chosen.submit(input_ids, max_new_tokens, **sampling)
        try:
            while True:
                token = await asyncio.to_thread(chosen.next, request)
                yield token
                if token.finish is not None:
                    return
        finally:
            chosen.cancel(request)

    def generate_stream(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | Sequence[int] | None = None,
        gpu_sampling: bool = False,
        **sampling: Any,
    ) -> Iterator[int]:
        """New token ids, the one that ends the text included. Without eos_token_id only the length ends it.

        Drawing is always on the device. `sampling`: seed, min_p, repetition_penalty and what Engine.submit takes.
        """
        draw = _draw(temperature, top_k, top_p, eos_token_id, sampling)
        return (token.id for token in self.stream(input_ids, max_new_tokens, **draw))

    def generate(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | Sequence[int] | None = None,
        use_cache: bool = True,
        gpu_sampling: bool = False,
        **sampling: Any,
    ) -> list[int]:
        """The prompt and the new token ids, the one that ends the text included; use_cache=False changes nothing."""
        stream = self.generate_stream(
            input_ids, max_new_tokens, temperature, top_k, top_p, eos_token_id, gpu_sampling, **sampling
        )
        return [*input_ids, *stream]

    async def generate_async(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | Sequence[int] | None = None,
        **sampling: Any,
    ) -> AsyncIterator[int]:
        """generate_stream for asyncio."""
        draw = _draw(temperature, top_k, top_p, eos_token_id, sampling)
        async for token in self.stream_async(input_ids, max_new_tokens, **draw):
            yield token.id

    def _engine_for(self, tokens: int, logprobs: bool, top_logprobs: int) -> Engine:
        kept = self._engine
        if kept is None or not kept.serves(tokens, logprobs, top_logprobs):
            kept = Engine.for_requests(self._core, tokens, logprobs=logprobs, top_logprobs=top_logprobs)
            self._engine = kept
        return kept


def _draw(
    temperature: float, top_k: int, top_p: float, eos: int | Sequence[int] | None, sampling: dict[str, Any]
) -> dict[str, Any]:
    stops = sampling.pop("stop_tokens", ())
    ends = () if eos is None else (eos,) if isinstance(eos, int) else eos
    return {"temperature": temperature, "top_k": top_k, "top_p": top_p, "stop_tokens": [*stops, *ends], **sampling}
