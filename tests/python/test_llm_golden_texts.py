"""The golden texts of all real models by every way to decode: eager, graphs, batched, paged, and each strategy."""

from __future__ import annotations

import pytest
from llm_case import golden

from pygpukit import llm

NEW = 24
GREEDY = {"temperature": 0.0}
DIGITS = [[2, 0, 1, 1, 0, 2], [0, 2, 0, 2, 1, 0], [1, 1, 1, 0, 0, 2]]


@pytest.fixture(params=["stories260K", "stories15M", "stories260K-moe4x2-derived", "gpt-nano-sort"])
def case(request, device, assets):
    """A model, and its texts: (tokens of the prompt, ids)."""
    model = llm.load_model_from_safetensors(assets / request.param)
    if request.param == "gpt-nano-sort":
        # Its last position draws the sixth digit.
        return model, [(6, digits + sorted(digits)) for digits in DIGITS]
    _, ids = golden(assets, request.param)
    return model, [(n, ids[: n + NEW]) for n in (1, 5, 30)]


OPTIONS = {
    "eager": {"graphs": False},
    "graph": {"verify_graphs": True},
    "paged": {"page_size": 2, "token_budget": 5},
    "batched": {"max_sequences": 6},
    "batched eager in few pages": {"max_sequences": 6, "page_size": 4, "num_pages": 29, "graphs": False},
}


@pytest.mark.parametrize("way", OPTIONS)
def test_engine(case, way):
    model, texts = case
    options = dict(OPTIONS[way])
    positions = model.config.max_position_embeddings
    engine = model.engine(max_tokens=min(64, positions), **options)
    repeats = 2 if options.get("max_sequences", 1) > 1 else 1
    names = {}
    for n, ids in texts * repeats:
        names[engine.submit(ids[:n], len(ids) - n, **GREEDY)] = ids, list(ids[:n])
    while not engine.idle():
        for token in engine.step():
            names[token.request][1].append(token.id)
    for ids, text in names.values():
        assert text == ids
    assert (engine.num_graphs > 0) == options.get("graphs", True)


STRATEGIES = {
    "one token": llm.DecodeM1,
    "one token by a graph": llm.DecodeM1Graph,
    "batch": lambda: llm.DecodeBatch(4),
    "jacobi": lambda: llm.DecodeJacobi(5, 3),
    "jacobi ngram": lambda: llm.DecodeJacobi(4, 2, "ngram"),
    "jacobi greedy": lambda: llm.DecodeJacobi(4, 2, "greedy"),
    "first layers": lambda: llm.DecodeSpeculative(3, 2),
    "all layers": lambda: llm.DecodeSpeculative(3, 99),
    "ngrams": lambda: llm.DecodeSpeculative(4, ngrams=True),
    "another model": None,
}


def continued(model, strategy, ids, n):
    """The text of a strategy from n tokens on; the positions end with the model's."""
    text = [*ids[:n], int(model.prefill_fixed_cache(ids[:n]).to_numpy().argmax())]
    buffers = llm.DecodeBuffers.allocate(model.config, dtype="float32", vocab_size=model.config.vocab_size)
    while len(text) < len(ids):
        at = len(text) - 1
        if isinstance(strategy, llm.DecodeM1):
            tokens = [int(strategy.step(text[at], at, at + 1, buffers).to_numpy().argmax())]
        elif isinstance(strategy, llm.DecodeM1Graph):
            tokens = [int(strategy.step_graph(text[at], at, at + 1).to_numpy().argmax())]
        elif isinstance(strategy, llm.DecodeBatch):
            # What is to come is known here: several tokens of it are computed in one step.
            known = ids[at : min(at + 4, len(ids) - 1)]
            hidden = model.get_logits(strategy.step_batch(known, at, at + len(known))).to_numpy().argmax(-1)
            tokens = strategy.step_graph(known, at, at + len(known)).to_numpy().argmax(-1).tolist()
            assert hidden.tolist() == tokens
        elif isinstance(strategy, llm.DecodeJacobi):
            tokens, _, _ = strategy.step_jacobi(text[at], at, at + 1)
        else:
            tokens, _, _ = strategy.step_speculative(text[at], at, at + 1)
        assert tokens
        text += tokens
    return text[: len(ids)]


@pytest.mark.parametrize("way", STRATEGIES)
def test_strategy(case, assets, way):
    model, texts = case
    size = min(64, model.config.max_position_embeddings)
    if way == "another model":
        draft = llm.load_model_from_safetensors(assets / "stories260K", quantize="int8")
        if draft.config.vocab_size != model.config.vocab_size:  # one of its own kind
            draft = llm.CausalTransformerModel(
                model.config, model.embed_tokens, model._core.make_blocks(), model.final_norm, model.lm_head,
                model.position_embed,
            )  # fmt: skip
        draft.init_fixed_cache(size)
        strategy = llm.DecodeSpeculative(3, draft_model=draft)
    else:
        draft, strategy = None, STRATEGIES[way]()
    model.init_fixed_cache(size)
    strategy.bind(model)
    strategy.init_graph(size)
    for n, ids in texts[-2:]:
        if draft is not None:
            draft.prefill_fixed_cache(ids[:n])
        assert continued(model, strategy, ids, n) == ids
