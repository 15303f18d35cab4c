"""The model of our own that comes with the package: its size, its record, and the stories it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pygpukit import llm
from pygpukit.cli import main

FOLDER = Path(llm.DEFAULT_MODEL)
TRAINING = Path(__file__).resolve().parents[2] / "tools" / "train_default"


@pytest.fixture(scope="module")
def parses():
    sys.path.insert(0, str(TRAINING))
    try:
        from stories import parses
    finally:
        sys.path.remove(str(TRAINING))
    return parses


def test_files():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 3 << 20
    record = json.loads((FOLDER / "training.json").read_text())
    assert record["model_bytes"] == (FOLDER / "model.safetensors").stat().st_size
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["vocab_size"] <= 2048 and record["held_out_loss"] > 0


def test_the_grammar_refuses_other_text(parses):
    assert not parses("Once upon a time there was a happy cat named Mia. The stock market fell sharply on Monday.")


def test_sampled_stories_are_of_the_grammar(device, parses):
    model, tokenizer = llm.load_model_from_safetensors(FOLDER), llm.Tokenizer(FOLDER)
    engine = model.engine(max_sequences=50, max_tokens=256)
    prompt = tokenizer.encode("")
    texts = {engine.submit(prompt, 255, temperature=0.7, seed=seed, stop_tokens=[1]): [] for seed in range(100)}
    while not engine.idle():
        for token in engine.step():
            texts[token.request].append(token.id)
    stories = [tokenizer.decode([id for id in ids if id != 1]) for ids in texts.values()]
    assert len(set(stories)) > 90
    assert sum(parses(story) for story in stories) >= 95, [story for story in stories if not parses(story)]


def test_generate_without_a_model(device, capsys, parses):
    options = ["--temperature", "0.7", "--top-k", "0", "--top-p", "1", "--seed", "3", "--device", str(device)]
    assert main(["generate", *options]) == 0
    shown = capsys.readouterr()
    assert parses(shown.out) and "toy" in shown.err
    assert main(["generate", "Once upon a time", *options]) == 0
    assert capsys.readouterr().out.startswith("Once upon a time")
