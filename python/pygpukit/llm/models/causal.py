"""A language model: text goes on, token by token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pygpukit._core import copy_to, from_numpy
from pygpukit._core._llm import Decoder as Decoder
from pygpukit._core._llm import Engine as Engine
from pygpukit._core._llm import Token as Token
from pygpukit._core._llm import Transformer as _Transformer
from pygpukit._core._llm import token_ids
from pygpukit.llm.decode import DecodeJacobi, DecodeSpeculative
from pygpukit.llm.progress import progress_bar

if TYPE_CHECKING:
    from pygpukit import GPUArray
    from pygpukit._core import Device, Weight
    from pygpukit._core._llm import MLP, Attention, MoELayer, Norm, TransformerBlock
    from pygpukit.core.dtypes import DataType
    from pygpukit.llm.buffers import DecodeBuffers, PrefillBuffers
    from pygpukit.llm.config import ModelSpec, TransformerConfig
    from pygpukit.typing import DeviceLike, DTypeLike, PathLike

    KeysValues = list[tuple[GPUArray, GPUArray]]

__all__ = ["CausalTransformerModel", "Engine", "Token"]


def _ids(tokens: Generator[Token, None, None]) -> Generator[int, None, None]:
    with contextlib.closing(tokens):  # a generator that is closed need not let go of the one it reads
        for token in tokens:
            yield token.id


class CausalTransformerModel:
    """A decoder of GPT-2's or LLaMA's kind. Load one with load_model_from_safetensors."""

    spec: ModelSpec | None
    # Assigned by programs for 0.2; the layers have tables of their own.
    _rope_cos_gpu: GPUArray | None = None
    _rope_sin_gpu: GPUArray | None = None

    def __init__(
        self,
        config: TransformerConfig,
        embed_tokens: GPUArray,
        blocks: Sequence[TransformerBlock],
        final_norm: Norm,
        lm_head: GPUArray | Weight | None = None,
        position_embed: GPUArray | None = None,
        spec: ModelSpec | None = None,
    ):
        self._set_up(_Transformer(config, embed_tokens, blocks, final_norm, lm_head, position_embed), spec, list(blocks))

    def _set_up(
        self, core: _Transformer, spec: ModelSpec | None, blocks: list[TransformerBlock] | None = None
    ) -> None:
        self._core = core
        self._engine: Engine | None = None
        self._blocks = blocks
        self._decoder: Decoder | None = None
        self.spec = spec

    @classmethod
    def from_safetensors(
        cls,
        path: PathLike,
        dtype: DTypeLike | None = "float32",
        *,
        device: DeviceLike | None = None,
        quantize: DTypeLike | None = None,
        group: int = 0,
        spec: ModelSpec | None = None,
        evictable: bool = False,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> CausalTransformerModel:
        """From a file, an index, a folder or a name in the Hugging Face cache.

        dtype: of activations and of matrices that stay dense; None: as the checkpoint has them. quantize: 'float8_e4m3',
        'int8', 'int4' or 'float4_e2m1' for the matrices of the layers, with a scale for `group` columns.
        evictable: where memory is short, the model with its caches and graphs leaves the device as a whole when others
        need the room, and comes back when it is used. Weights are not copied out: they are read from the files again,
        which must stay as they are, or from a copy in host memory where they were quantised or packed.
        progress: called with the bytes loaded and those in all; None: a bar where stderr is a terminal; False: nothing.
        """
        show = progress_bar("loading") if progress is None or progress is True else progress or None
        model = cls.__new__(cls)
        model._set_up(_Transformer.load(path, device, dtype, quantize, group, spec, evictable, show), spec)
        return model

    @classmethod
    def random(
        cls,
        config: TransformerConfig,
        dtype: DTypeLike | None = "float32",
        *,
        device: DeviceLike | None = None,
        quantize: DTypeLike | None = None,
        group: int = 0,
        seed: int = 0,
    ) -> CausalTransformerModel:
        """Of the config's family with random weights, made on the device: for measurements of a shape."""
        model = cls.__new__(cls)
        model._set_up(_Transformer.random(config, device, dtype, quantize, group, seed), None)
        return model

    @property
    def resident(self) -> bool:
        """False while the memory of an evictable model serves others."""
        return self._core.resident

    def evict(self) -> int:
        """Gives the memory of an evictable model up until it is used again; the device bytes that became free."""
        return self._core.evict()

    def restore(self) -> None:
        """Brings an evictable model back now. Any use of it does."""
        self._core.restore()

    @property
    def config(self) -> TransformerConfig:
        """A copy: a change of it does not change the model."""
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
    def blocks(self) -> list[TransformerBlock]:
        """The layers, with fixed caches of their own."""
        if self._blocks is None:
            self._blocks = self._core.make_blocks()
        return self._blocks

    @property
    def final_norm(self) -> Norm:
        return self._core.final_norm

    @property
    def head(self) -> Weight:
        """What get_logits multiplies by: the model's own, or the embedding."""
        return self._core.head

    @property
    def lm_head(self) -> GPUArray | None:
        """The matrix [vocab, hidden] of the head, or its codes; None where the embedding serves as head."""
        return None if self._core.head_is_tied else self._core.head.data

    def __call__(
        self,
        input_ids: Sequence[int],
        position_ids: Sequence[int] | None = None,
        past_key_values: KeysValues | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, KeysValues | None]:
        """Hidden states [tokens, hidden]; with use_cache also keys and values [tokens so far, kv_heads, dim] a layer.

        Without position_ids positions go on after those of past_key_values. With them RoPE or the embedding of positions
        takes these; a token still sees all before it, and the window and the scale of q follow its place.
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
    ) -> Generator[Token, None, None]:
        """New tokens with their log-probabilities and why they ended; `sampling` as Engine.submit takes it."""
        ids = token_ids(input_ids)
        chosen = engine or self._engine_for(len(ids) + max_new_tokens, logprobs, top_logprobs)
        request = chosen.submit(ids, max_new_tokens, **sampling)
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
    ) -> AsyncGenerator[Token, None]:
        """The same for asyncio: other coroutines run between tokens. Neither submit nor cancel waits for a step."""
        ids = token_ids(input_ids)
        chosen = engine or self._engine_for(len(ids) + max_new_tokens, False, 0)
        request = chosen.submit(ids, max_new_tokens, **sampling)
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
    ) -> Generator[int, None, None]:
        """New token ids, the one that ends the text included. Without eos_token_id only the length ends it.

        Drawing is always on the device. `sampling`: seed, min_p, repetition_penalty and what Engine.submit takes.
        """
        draw = _draw(temperature, top_k, top_p, eos_token_id, sampling)
        return _ids(self.stream(input_ids, max_new_tokens, **draw))

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
        ids = token_ids(input_ids)
        stream = self.generate_stream(
            ids, max_new_tokens, temperature, top_k, top_p, eos_token_id, gpu_sampling, **sampling
        )
        return [*ids, *stream]

    async def generate_async(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | Sequence[int] | None = None,
        **sampling: Any,
    ) -> AsyncGenerator[int, None]:
        """generate_stream for asyncio."""
        draw = _draw(temperature, top_k, top_p, eos_token_id, sampling)
        async with contextlib.aclosing(self.stream_async(input_ids, max_new_tokens, **draw)) as stream:
            async for token in stream:
                yield token.id

    # One sequence in fixed caches: what the strategies of pygpukit.llm.decode work on.

    def init_fixed_cache(self, max_seq_len: int = 512, dtype: DTypeLike | None = None) -> None:
        """New caches of max_seq_len tokens in all attention layers."""
        for block in self.blocks:
            block.attn.init_fixed_cache(max_seq_len, self.dtype if dtype is None else dtype)

    def ensure_fixed_cache(self, max_seq_len: int) -> None:
        """Caches of at least max_seq_len tokens: those there are, or new ones."""
        caches = [block.attn._k_cache for block in self.blocks]
        if any(cache is None or cache.shape[1] < max_seq_len for cache in caches):
            self.init_fixed_cache(max_seq_len)

    def decoder(self, max_tokens: int = 1) -> Decoder:
        """Steps of up to max_tokens tokens in the fixed caches, which init_fixed_cache made."""
        attention = [block.attn for block in self.blocks]
        kept = self._decoder
        if kept is None or kept.max_tokens < max_tokens or not kept.uses(attention):
            kept = self._decoder = Decoder(self._core, attention, max_tokens)
        return kept

    def prefill_fixed_cache(self, input_ids: Sequence[int], start_position: int = 0) -> GPUArray:
        """Computes a prompt in the fixed caches; the logits [1, vocab] after its last token."""
        ids = token_ids(input_ids)
        return self.decoder(len(ids)).prefill(ids, start_position)

    def snapshot_kv_cache(self) -> list[tuple[Any, Any]]:
        """The fixed caches as NumPy arrays, a pair a layer."""
        return [(_numpy(k), _numpy(v)) for k, v in map(_fixed_cache, self.blocks)]

    def restore_kv_cache(self, snapshot: Sequence[tuple[Any, Any]]) -> None:
        """Writes what snapshot_kv_cache gave back to the caches."""
        for block, pair in zip(self.blocks, snapshot, strict=True):
            for cache, values in zip(_fixed_cache(block), pair, strict=True):
                copy_to(from_numpy(values, device=cache.device).astype(cache.dtype), cache)

    def init_decode_graph(self, max_seq_len: int = 512) -> None:
        """Prepares decode_step_graph."""
        self.ensure_fixed_cache(max_seq_len)

    def decode_step_graph(self, token_id: int, position: int, context_len: int | None = None) -> GPUArray:
        """The logits [1, vocab] after the token at `position`, by one graph launch; the next step overwrites them."""
        return self.decoder().replay([token_id], position)

    def init_jacobi_decode(self, lookahead_k: int = 4, max_seq_len: int = 512) -> None:
        """Prepares jacobi_decode_step for lookahead_k tokens."""
        self.ensure_fixed_cache(max_seq_len)
        self.decoder(lookahead_k)

    def jacobi_decode_step(self, draft_tokens: Sequence[int], position: int) -> list[int]:
        """What certainly follows draft_tokens[0], the token at `position`; the others are a guess of what does."""
        token, *draft = draft_tokens
        return self.decoder(len(draft_tokens)).check_draft(token, position, draft).tokens

    def decode_step_self_speculative_lookahead(
        self, token_id: int, max_draft_tokens: int = 4, draft_layers: int = 8
    ) -> tuple[list[int], dict[str, Any]]:
        """DecodeSpeculative.step_lookahead."""
        return self._lookahead(DecodeSpeculative(max_draft_tokens, draft_layers), token_id)

    def decode_step_jacobi_lookahead(
        self, token_id: int, n_tokens: int = 8, max_iter: int = 3, init_strategy: str = "repeat"
    ) -> tuple[list[int], dict[str, Any]]:
        """DecodeJacobi.step_lookahead."""
        return self._lookahead(DecodeJacobi(n_tokens, max_iter, init_strategy), token_id)

    def _lookahead(self, strategy: DecodeSpeculative | DecodeJacobi, token_id: int) -> tuple[list[int], dict[str, Any]]:
        strategy.bind(self)
        return strategy.step_lookahead(token_id)

    def set_lookahead_confirmed_pos(self, pos: int) -> None:
        """Tokens before `pos` stay; the next lookahead step is at `pos`."""
        for block in self.blocks:
            block.attn.set_confirmed_pos(pos)

    def reset_lookahead_all(self) -> None:
        """Back to the confirmed position: what lies after it is written anew."""
        for block in self.blocks:
            block.attn.reset_lookahead()

    def commit_lookahead_all(self, n_accepted: int) -> None:
        """Moves the confirmed position on."""
        for block in self.blocks:
            block.attn.commit_lookahead(n_accepted)

    def get_lookahead_confirmed_pos(self) -> int:
        return self.blocks[0].attn.get_confirmed_pos()

    def _decode_step_fixed_cache(self, token_id: int, position: int, context_len: int) -> GPUArray:
        return self.decoder().hidden([token_id], position)

    def _decode_step_fixed_cache_batch(
        self, token_ids: Sequence[int], start_position: int, context_len: int
    ) -> GPUArray:
        return self.decoder(len(token_ids)).hidden(list(token_ids), start_position)

    # Steps into arrays of the caller, as programs for 0.2 name them.

    def _decode_step_zero_alloc(
        self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers
    ) -> GPUArray:
        return _into(buffers.hidden, self.decoder().hidden([token_id], position))

    def _decode_step_fixed_cache_batch_zero_alloc(
        self, token_ids: Sequence[int], start_position: int, context_len: int, buffers: DecodeBuffers
    ) -> GPUArray:
        hidden = self.decoder(max(len(token_ids), buffers.max_batch_size)).hidden(list(token_ids), start_position)
        return _into(_rows_of("hidden_batch", buffers.hidden_batch, len(token_ids)), hidden)

    def _prefill_with_buffers(
        self, input_ids: Sequence[int], buffers: PrefillBuffers, use_cache: bool = True
    ) -> tuple[GPUArray, KeysValues | None]:
        rows = _rows_of("hidden", buffers.hidden, len(input_ids))
        hidden, past = self(input_ids, use_cache=use_cache)
        return _into(rows, hidden), past

    def _attention_forward_zero_alloc(
        self, attn: Attention, x: GPUArray, position: int, context_len: int, buffers: DecodeBuffers
    ) -> GPUArray:
        return attn.forward_fixed_cache(x, position, context_len, out=buffers.o_proj_out)

    def _mlp_forward_zero_alloc(self, mlp: MLP | MoELayer, x: GPUArray, buffers: DecodeBuffers) -> GPUArray:
        return mlp(x, out=buffers.mlp_down)

    @property
    def _lm_head(self) -> GPUArray | None:
        return self.lm_head

    @cached_property
    def _embed_np_cache(self) -> Any:
        return _numpy(self.embed_tokens)

    def _engine_for(self, tokens: int, logprobs: bool, top_logprobs: int) -> Engine:
        kept = self._engine
        if kept is None or not kept.serves(tokens, logprobs, top_logprobs):
            kept = Engine.for_requests(self._core, tokens, logprobs=logprobs, top_logprobs=top_logprobs)
            self._engine = kept
        return kept


def _fixed_cache(block: TransformerBlock) -> tuple[GPUArray, GPUArray]:
    k, v = block.attn._k_cache, block.attn._v_cache
    if k is None or v is None:
        raise RuntimeError("a layer has no fixed cache: call its attn.init_fixed_cache first")
    return k, v


def _into(out: GPUArray, result: GPUArray) -> GPUArray:
    copy_to(result.astype(out.dtype), out)
    return out


def _rows_of(name: str, buffer: GPUArray | None, rows: int) -> GPUArray:
    if buffer is None or buffer.shape[0] < rows:
        raise ValueError(f"buffers.{name} must have {rows} rows, got {None if buffer is None else buffer.shape[0]}")
    return buffer[:rows]


def _numpy(cache: GPUArray) -> Any:
    """bfloat16 as float32, which holds it exactly."""
    return cache.to_numpy(dtype="float32") if cache.dtype.name == "bfloat16" else cache.to_numpy()


def _draw(
    temperature: float, top_k: int, top_p: float, eos: int | Sequence[int] | None, sampling: dict[str, Any]
) -> dict[str, Any]:
    stops = sampling.pop("stop_tokens", ())
    ends = () if eos is None else (eos,) if isinstance(eos, int) else eos
    return {"temperature": temperature, "top_k": top_k, "top_p": top_p, "stop_tokens": [*stops, *ends], **sampling}
