"""What generate and its kin take and give: ids of any kind, tokenizers of others, generation_config.json, asyncio."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit.llm import Tokenizer, load_model_from_safetensors

GREEDY = {"temperature": 0.0}


@pytest.fixture
def stories(device, assets):
    return load_model_from_safetensors(assets / "stories260K")


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda ids: np.array(ids, np.int32), gp.from_numpy, iter])
def test_ids_are_plain_ints(stories, assets, kind):
    _, ids = golden(assets, "stories260K")
    prompt = kind(np.array(ids[:5]) if kind is gp.from_numpy else ids[:5])
    text = stories.generate(prompt, 5, **GREEDY)
    assert text == ids[:10] and all(type(i) is int for i in text)
    again = kind(np.array(ids[:5]) if kind is gp.from_numpy else ids[:5])
    assert list(stories.generate_stream(again, 3, **GREEDY)) == ids[5:8]
    stories.init_fixed_cache(32)
    third = kind(np.array(ids[:5]) if kind is gp.from_numpy else ids[:5])
    assert int(stories.prefill_fixed_cache(third).to_numpy().argmax()) == ids[5]


class Letters:
    """A tokenizer of somebody else: an id is a letter, and text comes in pairs."""

    def __init__(self, fails=None):
        self.fails = fails

    def stream(self):
        self.held = ""
        return self

    def push(self, token_id):
        if self.fails is not None:
            raise self.fails
        self.held += chr(97 + token_id % 26)
        shown, self.held = (self.held, "") if len(self.held) == 2 else ("", self.held)
        return shown

    def flush(self):
        shown, self.held = self.held, ""
        return shown


def test_a_tokenizer_of_another_kind(stories, assets):
    _, ids = golden(assets, "stories260K")
    letters = "".join(chr(97 + i % 26) for i in ids[4:15])
    tokens = list(stories.stream(ids[:4], 11, **GREEDY, tokenizer=Letters()))
    assert "".join(token.text for token in tokens) == letters and tokens[0].text == ""
    stopped = list(stories.stream(ids[:4], 11, **GREEDY, tokenizer=Letters(), stop=letters[6:8]))
    assert "".join(token.text for token in stopped) == letters[: letters.index(letters[6:8])]
    assert stopped[-1].finish == "stop_string"
    with pytest.raises(ZeroDivisionError):
        list(stories.stream(ids[:4], 5, tokenizer=Letters(ZeroDivisionError("mine"))))
    with pytest.raises(KeyboardInterrupt):
        list(stories.stream(ids[:4], 5, tokenizer=Letters(KeyboardInterrupt())))
    assert stories._engine.idle()
    for wrong in (3, "stories260K"):
        with pytest.raises(ValueError, match=r"tokenizer must be a Tokenizer, or have its method stream\(\)"):
            list(stories.stream(ids[:4], 5, tokenizer=wrong))


def test_the_package_tokenizers(stories, assets):
    path = str(assets / "stories260K")
    ours = [token.text for token in stories.stream([1], 60, **GREEDY, tokenizer=Tokenizer(path))]
    theirs = [
        token.text for token in stories.stream([1], 60, **GREEDY, tokenizer=Tokenizer(path, backend="tokenizers"))
    ]
    assert "".join(theirs).strip() == "".join(ours).strip() != ""


def test_generation_config(device, tmp_path):
    config = llama_config(eos_token_id=[5, 6])
    folder = save(tmp_path, config, llama_tensors(config))
    assert load_model_from_safetensors(folder).config.eos_token_ids == [5, 6]
    file = folder / "generation_config.json"
    for ends, expected in ((7, [5, 6, 7]), ([6, 9, 5], [5, 6, 9]), (None, [5, 6])):
        file.write_text(json.dumps({"eos_token_id": ends, "temperature": 0.6, "top_p": 0.9, "do_sample": True}))
        assert load_model_from_safetensors(folder).config.eos_token_ids == expected
    for text in ("{", "[]", '{"eos_token_id": -1}', '{"eos_token_id": "end"}', '{"eos_token_id": 4294967296}'):
        file.write_text(text)
        with pytest.raises(gp.errors.FormatError, match="generation_config.json: "):
            load_model_from_safetensors(folder)


def test_a_step_does_not_hold_the_event_loop(stories):
    """One request's callback takes its time in a thread; submitting and giving up others do not wait for it."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(tokens):
        if len(tokens) == 4:
            inside.set()
            assert go_on.wait(20)
        return range(512)

    async def main():
        engine = stories.engine(max_sequences=4)
        slowed = asyncio.create_task(collect(stories.stream_async([1, 2, 3], 4, engine=engine, allowed=slow, **GREEDY)))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        start = time.perf_counter()
        quick = asyncio.create_task(collect(stories.stream_async([1, 5], 4, engine=engine, **GREEDY)))
        gone = asyncio.create_task(collect(stories.stream_async([1, 6], 400, engine=engine, **GREEDY)))
        name = engine.submit([1, 7], 5)
        assert engine.cancel(name) and not engine.cancel(name)
        for _ in range(5):
            await asyncio.sleep(0.001)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        waited = time.perf_counter() - start
        assert not go_on.is_set() and not quick.done() and waited < 5
        go_on.set()
        texts = await asyncio.gather(slowed, quick)
        while not engine.idle():
            await asyncio.sleep(0.001)
        engine.drop_prefixes()
        return texts, engine

    async def collect(stream):
        return [token.id async for token in stream]

    texts, engine = asyncio.run(main())
    assert texts == [stories.generate([1, 2, 3], 4, **GREEDY)[3:], stories.generate([1, 5], 4, **GREEDY)[2:]]
    assert engine.num_running == 0 and engine.num_free_pages * 64 >= 4 * 512
