"""The classes of pygpukit.llm; internal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy

import pygpukit
import pygpukit._core
import pygpukit.core.dtypes
import pygpukit.llm
import pygpukit.llm.config
import pygpukit.llm.tokenizer
import pygpukit.typing


def token_ids(ids: pygpukit.typing.Ints) -> list[int]:
    """Plain ints of what holds ids: a sequence, an array."""

class TransformerConfig:
    """What a model looks like. None takes the usual size."""

    def __init__(self, vocab_size: int = 32000, hidden_size: int = 2048, num_layers: int = 22, num_heads: int = 32, num_kv_heads: int | None | None = None, intermediate_size: int | None | None = None, _head_dim: int | None | None = None, num_experts: int | None | None = None, num_experts_per_tok: int = 2, moe_intermediate_size: int | None | None = None, norm_type: str = 'rmsnorm', activation: str = 'silu', use_rope: bool = True, causal: bool = True, max_position_embeddings: int = 2048, norm_eps: float = 1e-05, rope_theta: float = 10000.0, tie_word_embeddings: bool = True, sliding_window: int | None | None = None) -> None: ...

    @staticmethod
    def from_json(text: str) -> TransformerConfig:
        """The config.json of a Hugging Face checkpoint."""

    @property
    def model_type(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @vocab_size.setter
    def vocab_size(self, arg: int, /) -> None: ...

    @property
    def hidden_size(self) -> int: ...

    @hidden_size.setter
    def hidden_size(self, arg: int, /) -> None: ...

    @property
    def num_layers(self) -> int: ...

    @num_layers.setter
    def num_layers(self, arg: int, /) -> None: ...

    @property
    def num_heads(self) -> int: ...

    @num_heads.setter
    def num_heads(self, arg: int, /) -> None: ...

    @property
    def num_kv_heads(self) -> int: ...

    @num_kv_heads.setter
    def num_kv_heads(self, value: int | None | None) -> None: ...

    @property
    def num_kv_groups(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def _head_dim(self) -> int | None: ...

    @_head_dim.setter
    def _head_dim(self, value: int | None | None) -> None: ...

    @property
    def intermediate_size(self) -> int: ...

    @intermediate_size.setter
    def intermediate_size(self, value: int | None | None) -> None: ...

    @property
    def num_experts(self) -> int | None: ...

    @num_experts.setter
    def num_experts(self, value: int | None | None) -> None: ...

    @property
    def num_experts_per_tok(self) -> int: ...

    @num_experts_per_tok.setter
    def num_experts_per_tok(self, arg: int, /) -> None: ...

    @property
    def moe_intermediate_size(self) -> int | None: ...

    @moe_intermediate_size.setter
    def moe_intermediate_size(self, value: int | None | None) -> None: ...

    @property
    def is_moe(self) -> bool: ...

    @property
    def norm_type(self) -> str: ...

    @norm_type.setter
    def norm_type(self, arg: str, /) -> None: ...

    @property
    def activation(self) -> str: ...

    @activation.setter
    def activation(self, arg: str, /) -> None: ...

    @property
    def use_rope(self) -> bool: ...

    @use_rope.setter
    def use_rope(self, arg: bool, /) -> None: ...

    @property
    def causal(self) -> bool: ...

    @property
    def max_position_embeddings(self) -> int: ...

    @max_position_embeddings.setter
    def max_position_embeddings(self, arg: int, /) -> None: ...

    @property
    def norm_eps(self) -> float: ...

    @norm_eps.setter
    def norm_eps(self, arg: float, /) -> None: ...

    @property
    def rope_theta(self) -> float: ...

    @rope_theta.setter
    def rope_theta(self, arg: float, /) -> None: ...

    @property
    def tie_word_embeddings(self) -> bool: ...

    @tie_word_embeddings.setter
    def tie_word_embeddings(self, arg: bool, /) -> None: ...

    @property
    def sliding_window(self) -> int | None: ...

    @sliding_window.setter
    def sliding_window(self, value: int | None | None) -> None: ...

    @property
    def eos_token_ids(self) -> list[int]: ...

    def __repr__(self) -> str: ...

def model_spec_fields(name: str) -> dict[str, Any]:
    """The fields of a known ModelSpec."""

def detect_model_spec_name(tensor_names: Sequence[str]) -> str:
    """The name of the ModelSpec that tensors are named by."""

class LinearBF16:
    """input @ weight.T + bias, of any dtype."""

    def __init__(self, weight: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, bias: pygpukit._core.GPUArray | None = None) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray: ...

    @property
    def weight(self) -> pygpukit._core.GPUArray: ...

    @property
    def packed(self) -> pygpukit._core.Weight:
        """The Weight."""

    @property
    def bias(self) -> pygpukit.GPUArray | None: ...

    @property
    def out_features(self) -> int: ...

    @property
    def in_features(self) -> int: ...

class LinearFP8(LinearBF16):
    """The same for float8_e4m3 codes with a scale for each block."""

    def __init__(self, weight_fp8: pygpukit._core.GPUArray, scale_inv: pygpukit._core.GPUArray, bias: pygpukit._core.GPUArray | None = None, block_size: pygpukit.typing.Ints = (128, 128)) -> None: ...

class Norm:
    """rmsnorm, or layernorm with a bias, over the last axis."""

    def __init__(self, weight: pygpukit._core.GPUArray, bias: pygpukit._core.GPUArray | None = None, norm_type: str = 'rmsnorm', eps: float = 1e-05) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray: ...

    @property
    def weight(self) -> pygpukit._core.GPUArray: ...

    @property
    def bias(self) -> pygpukit.GPUArray | None: ...

    @property
    def norm_type(self) -> str: ...

    @property
    def eps(self) -> float: ...

class Attention:
    """Self-attention with a cache of keys and values."""

    def __init__(self, q_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, k_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, v_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, o_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, config: TransformerConfig, q_bias: pygpukit._core.GPUArray | None = None, k_bias: pygpukit._core.GPUArray | None = None, v_bias: pygpukit._core.GPUArray | None = None, o_bias: pygpukit._core.GPUArray | None = None, q_norm: Norm | None | None = None, k_norm: Norm | None | None = None) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, position_ids: Any | None = None, past_kv: tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None | None = None, use_cache: bool = False) -> tuple[pygpukit._core.GPUArray, tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None]:
        """
        (out, (k, v) of all tokens so far or None). position_ids: by which RoPE turns; a token sees those before it in x and past_kv, whatever their positions.
        """

    def init_fixed_cache(self, max_seq_len: int, dtype: pygpukit.typing.DTypeLike = 'float16') -> None:
        """Makes _k_cache and _v_cache, [num_heads, max_seq_len, head_dim]."""

    def forward_fixed_cache(self, x: pygpukit._core.GPUArray, position: int, context_len: int, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
        """
        One token at `position`, after those of the fixed cache; it sees position + 1 tokens.
        """

    def forward_fixed_cache_batch(self, x: pygpukit._core.GPUArray, start_position: int, context_len: int) -> pygpukit._core.GPUArray:
        """Several tokens from `start_position` on."""

    def forward_fixed_cache_batch_zero_alloc(self, x: pygpukit._core.GPUArray, start_position: int, context_len: int, buffers: Any, rope_cos_gpu: Any | None = None, rope_sin_gpu: Any | None = None, start_pos_buf: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
        """
        The same into buffers.o_proj_out_batch, of DecodeBuffers with max_batch_size; nothing is allocated. start_pos_buf: the start in device memory, int32 [1], in place of start_position. RoPE takes the layer's own tables.
        """

    @property
    def _k_cache(self) -> pygpukit.GPUArray | None: ...

    @property
    def _v_cache(self) -> pygpukit.GPUArray | None: ...

    @property
    def _cos(self) -> numpy.ndarray | None: ...

    @property
    def _sin(self) -> numpy.ndarray | None: ...

    @property
    def qkv_proj(self) -> LinearBF16: ...

    @property
    def o_proj(self) -> LinearBF16: ...

    @property
    def num_heads(self) -> int: ...

    @property
    def num_kv_heads(self) -> int: ...

    @property
    def num_kv_groups(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def q_dim(self) -> int: ...

    @property
    def k_dim(self) -> int: ...

    @property
    def v_dim(self) -> int: ...

    def set_confirmed_pos(self, pos: int) -> None: ...

    def get_confirmed_pos(self) -> int: ...

    def reset_lookahead(self) -> None:
        """
        Nothing to undo: what lies after the confirmed position is written anew.
        """

    def commit_lookahead(self, n_accepted: int) -> None: ...

class MLP:
    """down(silu(gate(x)) * up(x)), or fc2(gelu(fc1(x)))."""

    def __init__(self, config: TransformerConfig, fc1_weight: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None = None, fc1_bias: pygpukit._core.GPUArray | None = None, fc2_weight: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None = None, fc2_bias: pygpukit._core.GPUArray | None = None, gate_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None = None, up_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None = None, down_proj: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None = None) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray: ...

    @property
    def gate_proj(self) -> LinearBF16 | None: ...

    @property
    def up_proj(self) -> LinearBF16 | None: ...

    @property
    def down_proj(self) -> LinearBF16 | None: ...

    @property
    def fc1(self) -> LinearBF16 | None: ...

    @property
    def fc2(self) -> LinearBF16 | None: ...

class MoELayer:
    """Top-k experts of a router."""

    def __init__(self, config: TransformerConfig, gate_weight: pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None | None, expert_weights: Sequence[tuple[pygpukit.GPUArray, pygpukit.GPUArray, pygpukit.GPUArray]]) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray: ...

    def forward_zero_alloc(self, x: pygpukit._core.GPUArray, router_logits: Any | None, router_weights: Any | None, expert_indices: Any | None, expert_counts: Any | None, expert_offsets: Any | None, permute_indices: Any | None, reverse_perm: Any | None, row_expert_ids: Any | None, gathered: Any | None, gate_out: Any | None, up_out: Any | None, intermediate: Any | None, expert_outputs: Any | None, output: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
        """
        The same into `output`; nothing is allocated. What lies between comes from the workspace of the stream: the other arrays stay as they are.
        """

class TransformerBlock:
    """x + attn(norm(x)), then the same with the feed-forward layer."""

    def __init__(self, attn_norm: Norm, attn: Attention, mlp_norm: Norm, mlp: MLP | MoELayer) -> None: ...

    def __call__(self, x: pygpukit._core.GPUArray, position_ids: Any | None = None, past_kv: tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None | None = None, use_cache: bool = False) -> tuple[pygpukit._core.GPUArray, tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None]:
        """(x, (k, v) or None)."""

    @property
    def attn_norm(self) -> Norm: ...

    @property
    def attn(self) -> Attention: ...

    @property
    def mlp_norm(self) -> Norm: ...

    @property
    def mlp(self) -> MLP | MoELayer: ...

class Transformer:
    """Weights of a language model and its forward."""

    def __init__(self, config: TransformerConfig, embed_tokens: pygpukit._core.GPUArray, blocks: Any, final_norm: Norm, lm_head: pygpukit.GPUArray | pygpukit.Weight | None | None = None, position_embed: pygpukit._core.GPUArray | None = None) -> None: ...

    @staticmethod
    def load(path: pygpukit.typing.PathLike, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None | None = None, quantize: pygpukit.typing.DTypeLike | None | None = None, group: SupportsIndex = 0, spec: pygpukit.llm.config.ModelSpec | None | None = None, evictable: bool = False, progress: Callable[[int, int], object] | None | None = None) -> Transformer:
        """
        From a SafeTensors file, an index, a folder or the name of a model in the Hugging Face cache.
        """

    @staticmethod
    def random(config: TransformerConfig, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None | None = None, quantize: pygpukit.typing.DTypeLike | None | None = None, group: SupportsIndex = 0, seed: int = 0) -> Transformer:
        """Weights drawn on the device, for measurements."""

    @property
    def config(self) -> TransformerConfig: ...

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType: ...

    @property
    def device(self) -> pygpukit._core.Device: ...

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that one token of one sequence reads."""

    @property
    def resident(self) -> bool:
        """False while the memory of an evictable model serves others."""

    def evict(self) -> int:
        """
        Gives the memory of an evictable model up until it is used again. The device bytes that became free.
        """

    def restore(self) -> None:
        """Brings an evictable model back. Any use of it does."""

    @property
    def embed_tokens(self) -> pygpukit._core.GPUArray: ...

    @property
    def position_embed(self) -> pygpukit.GPUArray | None: ...

    def make_blocks(self) -> list[TransformerBlock]:
        """The layers, with caches of their own; weights are shared."""

    @property
    def final_norm(self) -> Norm: ...

    @property
    def head(self) -> pygpukit._core.Weight: ...

    @property
    def head_is_tied(self) -> bool: ...

    def forward(self, input_ids: pygpukit.typing.Ints, position_ids: Sequence[int] | None | None = None, past_key_values: list[tuple[pygpukit.GPUArray, pygpukit.GPUArray]] | None | None = None, use_cache: bool = False) -> tuple[pygpukit._core.GPUArray, Any]:
        """Hidden states of a sequence, and its keys and values."""

    def logits(self, hidden: pygpukit._core.GPUArray, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
        """hidden [rows, hidden] as logits [rows, vocab]."""

class Accepted:
    """Tokens that follow, and what they cost."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def drafted(self) -> int: ...

    @property
    def iterations(self) -> int: ...

    @property
    def converged(self) -> bool: ...

class Decoder:
    """One sequence in the fixed caches of a model's attention layers."""

    def __init__(self, model: Transformer, attention: Any, max_tokens: int) -> None: ...

    def uses(self, attention: Any) -> bool:
        """Whether these layers have the caches that the decoder was made with."""

    @property
    def max_tokens(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def num_layers(self) -> int: ...

    def hidden(self, ids: Sequence[int], start: int) -> pygpukit._core.GPUArray:
        """
        Hidden states of ids at start, start + 1, ...; the next step overwrites them.
        """

    def logits(self, ids: Sequence[int], start: int) -> pygpukit._core.GPUArray:
        """Logits likewise."""

    def replay(self, ids: Sequence[int], start: int) -> pygpukit._core.GPUArray:
        """The same by a graph, captured when a number of ids comes first."""

    def prefill(self, ids: Sequence[int], start: int) -> pygpukit._core.GPUArray:
        """The logits [1, vocab] after the last of ids alone."""

    def check_draft(self, token: int, position: int, draft: Sequence[int]) -> Accepted:
        """What follows `token`, with a draft of it checked in one step."""

    def draft(self, token: int, position: int, count: int, layers: int = -1) -> list[int]:
        """Tokens that the first layers would choose."""

    def draft_by_text(self, token: int, position: int, count: int, longest: int = 3) -> list[int]:
        """
        What followed the last time that the text before ended in the same tokens; may be empty.
        """

    def jacobi(self, token: int, position: int, guess: Sequence[int], max_iterations: int) -> Accepted:
        """What follows `token`, from a guess computed anew."""

class Token:
    """One new token of a request."""

    @property
    def request(self) -> int: ...

    @property
    def id(self) -> int:
        """Raises what ended the request where finish is 'error'."""

    @property
    def logprob(self) -> float:
        """With an engine of log-probabilities."""

    @property
    def top(self) -> list[tuple[int, float]]:
        """(id, log-probability) of the likeliest, likeliest first."""

    @property
    def text(self) -> str:
        """
        With a tokenizer: what can be shown now, without half characters and stop strings.
        """

    @property
    def finish(self) -> str | None:
        """
        None, or why the request ended: length, stop_token, stop_string, error.
        """

    @property
    def error(self) -> BaseException | None:
        """
        What ended the request where finish is 'error'; then nothing was drawn.
        """

class Engine:
    """
    Many requests on one model: they join and leave between steps, and each gets the tokens it would get alone.
    """

    def __init__(self, model: Transformer, *, max_sequences: SupportsIndex = 1, max_tokens: SupportsIndex = 0, num_pages: SupportsIndex = 0, page_size: SupportsIndex = 64, token_budget: SupportsIndex = 512, cache_dtype: pygpukit.typing.DTypeLike | None | None = None, graphs: bool = True, verify_graphs: bool = False, logprobs: bool = False, top_logprobs: SupportsIndex = 0, keep_prefixes: bool = True) -> None:
        """
        max_tokens: of one sequence, 0 for the model's positions. num_pages: 0 for max_sequences such sequences.
        """

    @staticmethod
    def for_requests(model: Transformer, tokens: int, *, logprobs: bool = False, top_logprobs: SupportsIndex = 0) -> Engine:
        """
        An engine for a few requests of up to so many tokens, with room for longer ones where that is cheap.
        """

    def serves(self, tokens: int, logprobs: bool = False, top_logprobs: int = 0) -> bool:
        """Whether for_requests would make such an engine."""

    def submit(self, input_ids: pygpukit.typing.Ints, max_new_tokens: SupportsIndex = 20, *, temperature: float = 1.0, top_k: SupportsIndex = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int | None | None = None, repetition_penalty: float = 1.0, frequency_penalty: float = 0.0, presence_penalty: float = 0.0, logit_bias: Mapping[int, float] | None | None = None, stop_tokens: pygpukit.typing.Ints = (), allowed: Callable[[list[int]], Sequence[int]] | None | None = None, tokenizer: pygpukit.llm.Tokenizer | pygpukit.llm.tokenizer.TokenizersTokenizer | None | None = None, stop: str | Sequence[str] = ()) -> int:
        """
        The number of the request. stop: strings that end it, found in the text that `tokenizer` makes.
        """

    def next(self, request: int) -> Token:
        """
        The next token of one request; steps as often as it takes. Raises what ended the request, once.
        """

    def step(self) -> list[Token]:
        """
        One step of all requests: their new tokens. A request that failed has one that says so: others go on.
        """

    def cancel(self, request: int) -> bool:
        """False when the request has ended."""

    def idle(self) -> bool:
        """No request is left."""

    def drop_prefixes(self) -> None:
        """
        Gives the pages of ended texts back, which are kept for prompts that begin alike.
        """

    @property
    def num_free_pages(self) -> int:
        """Pages that neither a request nor an ended text has."""

    @property
    def max_tokens(self) -> int: ...

    @property
    def num_running(self) -> int: ...

    @property
    def num_waiting(self) -> int: ...

    @property
    def num_preempted(self) -> int: ...

    @property
    def num_reused_tokens(self) -> int: ...

    @property
    def num_graphs(self) -> int: ...

    @property
    def cache_bytes(self) -> int: ...
