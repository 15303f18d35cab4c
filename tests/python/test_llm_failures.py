"""What fails for one request ends that request alone: it is told once, its pages come back, the others' tokens stay."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from llm_case import llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit.llm import load_model_from_safetensors

BAD = 60  # the token whose embedding is NaN
GREEDY = {"temperature": 0.0}
GOOD = {"logit_bias": {BAD: -1e5}}


@pytest.fixture
def model(device, tmp_path):
    config = llama_config("llama")
    tensors = llama_tensors(config, seed=4)
    tensors["model.embed_tokens.weight"][BAD] = np.nan
    return load_model_from_safetensors(save(tmp_path, config, tensors))


def alone(model, prompt, count, **options):
    engine = model.engine()
    request = engine.submit(prompt, count, **options)
    return [engine.next(request).id for _ in range(count)]


def fails_at(length):
    """A callback that fails when the text has so many tokens."""

    def allowed(tokens):
        assert len(tokens) < length
        return range(50)

    return allowed


FAULTS = {
    "nan": ([3, BAD, 5], {}, gp.errors.Error, "NaN"),
    "nan while drawing": ([3, 4], {"logit_bias": {BAD: 1e5}, "allowed": lambda t: [BAD]}, gp.errors.Error, "NaN"),
    "callback": ([3, 5], {"allowed": lambda tokens: [1 // 0]}, ZeroDivisionError, "division"),
    "callback later": ([3, 5], {"allowed": fails_at(9)}, AssertionError, "len"),
    "no token": ([3, 5], {"allowed": lambda tokens: []}, ValueError, "allowed must give"),
    "a wrong token": ([3, 5], {"allowed": lambda tokens: [61]}, IndexError, "61"),
    "no number": ([3, 5], {"allowed": lambda tokens: ["x"]}, TypeError, "allowed"),
    "no list": ([3, 5], {"allowed": lambda tokens: 1.5}, TypeError, "allowed"),
    "pages": ([7] * 60, {}, MemoryError, "pages"),
}


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_one_request(model, fault, others):
    prompt, options, error, message = FAULTS[fault]
    texts = {i: alone(model, [i + 1] * (i + 3), 12, **GREEDY) for i in range(others)}
    engine = model.engine(max_sequences=3, page_size=16, num_pages=5 if fault == "pages" else 12)
    free = engine.num_free_pages
    good = {engine.submit([i + 1] * (i + 3), 12, **GREEDY): i for i in range(others)}
    bad = engine.submit(prompt, 30, **GREEDY, **options)
    got = {name: [engine.next(name).id] for name in good}  # others never see it
    with pytest.raises(error, match=message):
        for _ in range(30):
            engine.next(bad)
    with pytest.raises(ValueError, match="has not ended"):  # told once
        engine.next(bad)
    assert not engine.cancel(bad)
    for name, i in good.items():
        while len(got[name]) < 12:
            got[name].append(engine.next(name).id)
        assert got[name] == texts[i]
    assert engine.idle() and engine.num_running == 0
    engine.drop_prefixes()
    assert engine.num_free_pages == free
    again = engine.submit([1, 1, 1], 12, **GREEDY)
    assert [engine.next(again).id for _ in range(12)] == alone(model, [1, 1, 1], 12, **GREEDY)


def test_step_names_the_request_that_failed(model):
    engine = model.engine(max_sequences=3)
    good, bad = engine.submit([1, 2], 4, **GREEDY), engine.submit([BAD], 4, **GREEDY)
    worse = engine.submit([5], 4, allowed=lambda tokens: [1 // 0])
    tokens, ends = [], {}
    while not engine.idle():
        for token in engine.step():
            if token.finish == "error":
                ends[token.request] = token
            else:
                tokens.append(token.id)
                assert token.request == good and token.error is None
    assert tokens == alone(model, [1, 2], 4, **GREEDY) and set(ends) == {bad, worse}
    for name, error in ((bad, gp.errors.Error), (worse, ZeroDivisionError)):
        assert type(ends[name].error) is error
        for _ in range(2):  # who does not look at finish does not lose it
            with pytest.raises(error):
                ends[name].id  # noqa: B018


def test_neighbours_of_a_failed_draw_go_on(model):
    """Several fail in one step, some others end in it."""
    expected = [alone(model, [i + 1, 2], 3, **GREEDY) for i in range(4)]
    engine = model.engine(max_sequences=8)
    names = {}
    for i in range(4):
        names[engine.submit([i + 1, 2], 3, **GREEDY)] = i
        engine.submit([i, BAD], 3, **GREEDY)
    texts, failed = [[] for _ in range(4)], 0
    for _ in range(3):
        for token in engine.step():
            if token.finish == "error":
                failed += 1
            else:
                texts[names[token.request]].append(token.id)
    assert texts == expected and failed == 4 and engine.idle()


def test_an_interrupt_in_a_callback_ends_the_step_alone(model):
    raised = []

    def interrupted(tokens):
        if len(tokens) == 4 and not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return range(50)

    engine = model.engine(max_sequences=2)
    other = engine.submit([1, 2, 3], 8, **GREEDY)
    name = engine.submit([3, 5], 8, **GREEDY, allowed=interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(8):
            engine.next(other)
    text = [engine.next(name).id for _ in range(8)]
    assert text == alone(model, [3, 5], 8, **GREEDY, allowed=lambda tokens: range(50))
    while not engine.idle():
        engine.step()


def test_preemption_with_callbacks_faults_and_cancels(model, rng):
    """Few pages, callbacks that count, faults and cancels at random places: the rest has its tokens, nothing stays."""
    plans = []
    for i in range(14):
        prompt = rng.integers(0, 50, rng.integers(1, 20)).tolist()
        options = GREEDY | GOOD if i % 2 else {"temperature": 1.2, "seed": i, "top_k": 20} | GOOD
        if i % 3 == 0:
            options["allowed"] = lambda tokens: range(len(tokens) % 5, 50)
        plans.append((prompt, int(rng.integers(4, 25)), options))
    expected = [alone(model, prompt, count, **options) for prompt, count, options in plans]
    engine = model.engine(max_sequences=5, page_size=8, num_pages=11, token_budget=9)
    free = engine.num_free_pages
    names, texts, faults, cancelled = {}, {}, 0, set()
    for i, (prompt, count, options) in enumerate(plans):
        names[engine.submit(prompt, count, **options)] = i
        texts[i] = []
        if i % 2:
            engine.submit([*prompt, BAD][-15:], 20, allowed=fails_at(int(rng.integers(1, 30))) if i % 4 == 1 else None)
    step = 0
    while not engine.idle():
        for token in engine.step():
            if token.finish == "error":
                faults += 1
                assert token.request not in names
            elif token.request in names:
                texts[names[token.request]].append(token.id)
        step += 1
        if step in (7, 15, 23):
            name = next(n for n, i in names.items() if i not in cancelled and len(texts[i]) < len(expected[i]))
            cancelled.add(names[name])
            assert engine.cancel(name)
    assert faults == 7 and engine.num_preempted > 0 and len(cancelled) == 3
    for i, text in texts.items():
        assert text == expected[i][: len(text)] and (i in cancelled or text == expected[i])
    engine.drop_prefixes()
    assert engine.num_free_pages == free


def test_threads_submit_step_and_cancel_at_once(model):
    """Each has its tokens and its errors, whoever computes the step."""
    prompts = [[i + 1] * (2 * i + 1) for i in range(6)]
    expected = [alone(model, prompt, 12, **GREEDY, **GOOD) for prompt in prompts]
    engine = model.engine(max_sequences=4, page_size=8, num_pages=24, token_budget=10)
    free, wrong = engine.num_free_pages, []

    def work(i):
        try:
            for turn in range(6):
                if turn % 3 == 1:
                    name = engine.submit([*prompts[i], BAD], 12)
                    with pytest.raises(gp.errors.Error, match="NaN"):
                        engine.next(name)
                elif turn % 3 == 2:
                    name = engine.submit(prompts[i], 50, **GREEDY, **GOOD)
                    engine.next(name)
                    engine.cancel(name)  # it may have ended in others' steps
                    with pytest.raises(ValueError, match="has not ended"):
                        engine.next(name)
                else:
                    name = engine.submit(prompts[i], 12, **GREEDY, **GOOD)
                    assert [engine.next(name).id for _ in range(12)] == expected[i]
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and engine.idle()
    engine.drop_prefixes()
    assert engine.num_free_pages == free
