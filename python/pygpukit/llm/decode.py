"""Ways to decode one sequence in the fixed caches of a model's layers.

All give the tokens of plain greedy decoding where they choose tokens, exactly: drafts are checked by the whole model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pygpukit._core import copy_to
from pygpukit.llm.buffers import DecodeBuffers

if TYPE_CHECKING:
    from pygpukit import GPUArray
    from pygpukit._core._llm import Decoder
    from pygpukit.llm.models.causal import CausalTransformerModel

__all__ = ["DecodeBatch", "DecodeJacobi", "DecodeM1", "DecodeM1Graph", "DecodeSpeculative", "DecodeStrategy"]


class DecodeStrategy(ABC):
    """Bind one to a model whose layers have fixed caches, then call its steps."""

    max_tokens = 1  # of one step

    def __init__(self) -> None:
        self._model: CausalTransformerModel | None = None

    def bind(self, model: CausalTransformerModel) -> None:
        self._model = model

    @property
    def model(self) -> CausalTransformerModel:
        if self._model is None:
            raise RuntimeError(f"{type(self).__name__} is not bound to a model: call bind(model)")
        return self._model

    @property
    def decoder(self) -> Decoder:
        return self.model.decoder(self.max_tokens)

    @abstractmethod
    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        """Computes the token at `position`, which sees context_len = position + 1 tokens."""

    def init_graph(self, max_seq_len: int = 512) -> None:  # noqa: B027
        """Nothing to prepare, unless the strategy replays graphs."""

    def has_graph(self) -> bool:
        return False


def _into_logits(buffers: DecodeBuffers, logits: GPUArray) -> GPUArray:
    if buffers.logits is None:
        raise ValueError("DecodeBuffers.allocate needs vocab_size for this step: buffers.logits is None")
    copy_to(logits.astype(buffers.logits.dtype), buffers.logits)
    return buffers.logits


class DecodeM1(DecodeStrategy):
    """One token a step."""

    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        """The logits [1, vocab], in buffers.logits."""
        return _into_logits(buffers, self.decoder.logits([token_id], position))


class _GraphStrategy(DecodeStrategy):
    """Steps that a graph replays."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = False
        self.buffers: DecodeBuffers | None = None

    def init_graph(self, max_seq_len: int = 512) -> None:
        """Makes fixed caches of max_seq_len tokens where there are none; a graph is captured by the first step."""
        self.model.ensure_fixed_cache(max_seq_len)
        config = self.model.config
        rows = self.max_tokens if self.max_tokens > 1 else 0
        self.buffers = DecodeBuffers.allocate(
            config, dtype=self.model.dtype, vocab_size=config.vocab_size, max_batch_size=rows
        )
        self._ready = True

    def has_graph(self) -> bool:
        return self._ready

    def _check(self) -> None:
        if not self._ready:
            raise RuntimeError(f"{type(self).__name__} has no graph: call init_graph first")


class DecodeM1Graph(_GraphStrategy):
    """One token a step, by one graph launch."""

    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        raise NotImplementedError("DecodeM1Graph: use step_graph, or DecodeM1 for steps without a graph")

    def step_graph(self, token_id: int, position: int, context_len: int) -> GPUArray:
        """The logits [1, vocab], overwritten by the next step."""
        self._check()
        return self.decoder.replay([token_id], position)


class DecodeBatch(_GraphStrategy):
    """Several tokens of the sequence a step."""

    def __init__(self, batch_size: int = 8):
        super().__init__()
        self.batch_size = self.max_tokens = batch_size

    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        return self.step_batch([token_id], position, context_len, buffers)

    def step_batch(
        self, token_ids: Sequence[int], start_position: int, context_len: int, buffers: DecodeBuffers | None = None
    ) -> GPUArray:
        """The hidden states [tokens, hidden], in buffers.hidden_batch or overwritten by the next step."""
        if buffers is not None and buffers.hidden_batch is not None:
            return self.model._decode_step_fixed_cache_batch_zero_alloc(token_ids, start_position, context_len, buffers)
        return self.decoder.hidden(list(token_ids), start_position)

    def step_graph(self, token_ids: Sequence[int], start_position: int, context_len: int) -> GPUArray:
        """The logits [tokens, vocab] by a graph, overwritten by the next step."""
        self._check()
        return self.decoder.replay(list(token_ids), start_position)


class DecodeJacobi(DecodeStrategy):
    """Guesses n_tokens and computes them all at once, again and again, until the guess stays.

    init_strategy: 'repeat' the token, 'ngram' (what followed it earlier in the text), 'greedy' (the first half of the
    layers).
    """

    def __init__(self, n_tokens: int = 8, max_iter: int = 3, init_strategy: str = "repeat"):
        super().__init__()
        if init_strategy not in ("repeat", "ngram", "greedy"):
            raise ValueError(f"init_strategy must be repeat, ngram or greedy, got {init_strategy!r}")
        self.n_tokens, self.max_iter, self.init_strategy = n_tokens, max_iter, init_strategy
        self.max_tokens = n_tokens

    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        return _into_logits(buffers, self.decoder.logits([token_id], position))

    def step_jacobi(self, token_id: int, position: int, context_len: int) -> tuple[list[int], int, dict[str, Any]]:
        """(tokens after token_id, the position of the last of them, iterations, converged and accepted_count)."""
        decoder, count = self.decoder, self.n_tokens - 1
        guess: list[int] = []
        if self.init_strategy == "ngram":
            guess = decoder.draft_by_text(token_id, position, count)
        elif self.init_strategy == "greedy":
            guess = decoder.draft(token_id, position, count, max(1, decoder.num_layers // 2))
        guess += [token_id] * (count - len(guess))
        accepted = decoder.jacobi(token_id, position, guess, self.max_iter)
        stats = {
            "iterations": accepted.iterations,
            "converged": accepted.converged,
            "accepted_count": len(accepted.tokens),
        }
        return accepted.tokens, position + len(accepted.tokens), stats

    def step_lookahead(self, token_id: int) -> tuple[list[int], dict[str, Any]]:
        """The same at the position that the model has confirmed; commit with commit_lookahead_all."""
        position = self.model.get_lookahead_confirmed_pos()
        tokens, _, stats = self.step_jacobi(token_id, position, position + 1)
        return tokens, stats


class DecodeSpeculative(DecodeStrategy):
    """Drafts tokens cheaply and checks them in one step.

    The draft comes from the first draft_layers layers; from draft_model, a smaller model with the same tokens, whose
    fixed caches hold the same text; or, with ngrams, from what followed the same tokens earlier in the text.
    """

    def __init__(
        self,
        max_draft_tokens: int = 4,
        draft_layers: int = 8,
        *,
        draft_model: CausalTransformerModel | None = None,
        ngrams: bool = False,
    ):
        super().__init__()
        self.max_draft_tokens, self.draft_layers = max_draft_tokens, draft_layers
        self.draft_model, self.ngrams = draft_model, ngrams
        self.max_tokens = max_draft_tokens + 1

    def step(self, token_id: int, position: int, context_len: int, buffers: DecodeBuffers) -> GPUArray:
        return _into_logits(buffers, self.decoder.logits([token_id], position))

    def _draft(self, decoder: Decoder, token_id: int, position: int) -> list[int]:
        if self.ngrams:
            return decoder.draft_by_text(token_id, position, self.max_draft_tokens)
        if self.draft_model is not None:
            # One more than is used: its cache then holds all of the draft.
            drafted = self.draft_model.decoder(self.max_tokens).draft(token_id, position, self.max_draft_tokens + 1)
            return drafted[: self.max_draft_tokens]
        layers = min(self.draft_layers, decoder.num_layers)
        return decoder.draft(token_id, position, self.max_draft_tokens, layers)

    def step_speculative(self, token_id: int, position: int, context_len: int) -> tuple[list[int], int, dict[str, Any]]:
        """(tokens after token_id, the position of the last of them, draft_count and accepted_count)."""
        decoder = self.decoder
        accepted = decoder.check_draft(token_id, position, self._draft(decoder, token_id, position))
        stats = {"draft_count": accepted.drafted, "accepted_count": len(accepted.tokens)}
        return accepted.tokens, position + len(accepted.tokens), stats

    def step_lookahead(self, token_id: int) -> tuple[list[int], dict[str, Any]]:
        """The same at the position that the model has confirmed; commit with commit_lookahead_all."""
        position = self.model.get_lookahead_confirmed_pos()
        tokens, _, stats = self.step_speculative(token_id, position, position + 1)
        return tokens, stats
