"""The commands generate and chat, with a model small enough for any machine."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit.cli import main

STORY = "Once upon a time, there was a little girl named Lily. She loved to play outsid"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/chat/chat.py"


@pytest.fixture
def stories(assets):
    return str(assets / "stories260K")


def generate(capsys, *arguments):
    assert main(["generate", *arguments, "--temperature", "0", "--max-new-tokens", "20"]) == 0
    return capsys.readouterr()


def test_generate_goes_on_with_a_text(stories, capsys):
    shown = generate(capsys, stories, "Once upon a time")
    assert shown.out == STORY + "\n"
    assert shown.err.startswith("20 tokens in ") and shown.err.endswith(" tokens/s\n")
    assert generate(capsys, "--model", stories, "Once upon a time").out == shown.out
    assert generate(capsys, stories, "Once upon a time", "--no-cuda-graph").out == shown.out


def test_generate_json(stories, capsys):
    facts = json.loads(generate(capsys, stories, "Once upon a time", "--json").out)
    assert facts["prompt"] + facts["text"] == STORY
    assert (facts["tokens"], facts["prompt_tokens"], facts["finish"]) == (20, 5, "length")
    assert facts["seconds"] > 0 and facts["tokens_per_second"] > 0


def test_generate_reads_the_input(stories, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Once upon a time"))
    assert generate(capsys, stories, "-").out == STORY + "\n"


@pytest.mark.parametrize("format", ["fp8", "int8"])
def test_generate_quantized(stories, capsys, format):
    assert generate(capsys, stories, "Once upon a time", "--quantize", format).out.startswith("Once upon a time")


def test_the_same_seed_draws_the_same_text(stories, capsys):
    texts = []
    for seed in ("1", "1", "2"):
        assert main(["generate", stories, "Once", "--seed", seed, "--max-new-tokens", "30"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_prompts_are_cut_to_the_batch_size(stories, capsys):
    plain = generate(capsys, stories, "Once upon a time").out
    for options in (["--batch-size", "1"], ["--batch-size", "2"], ["--batch-size", "2", "--speculative"]):
        assert generate(capsys, stories, "Once upon a time", *options).out == plain


def test_drafts_give_the_same_text(stories, capsys):
    plain = generate(capsys, stories, "Once upon a time").out
    for options in ([], ["--draft-tokens", "7", "--draft-layers", "2"]):
        assert generate(capsys, stories, "Once upon a time", "--speculative", *options).out == plain
    texts = []
    for option in ([], ["--speculative"]):  # up to the end of the text, or of the room there is
        assert main(["generate", stories, "Once", "--temperature", "0", "--max-new-tokens", "400", "--json", *option]) == 0
        texts.append(json.loads(capsys.readouterr().out))
    assert texts[0]["text"] == texts[1]["text"] and texts[0]["finish"] == texts[1]["finish"]
    assert main(["generate", stories, "Once", "--speculative"]) == 1
    assert "--temperature 0" in capsys.readouterr().err


def test_generate_says_what_is_wrong(stories, capsys, tmp_path):
    assert main(["generate", stories]) == 2
    assert "stories260K is a model" in " ".join(capsys.readouterr().err.split())
    assert main(["chat"]) == 1
    assert "name a MODEL" in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "none"), "a text"]) == 1
    assert "none" in capsys.readouterr().err
    assert main(["generate", stories, "word " * 600]) == 1
    assert "tokens of 512" in capsys.readouterr().err
    assert main(["generate", stories, "Once", "--max-seq-len", "2"]) == 1
    assert "tokens of 2" in capsys.readouterr().err
    for wrong in (["--top-k", "-1"], ["--quantize", "int3"], ["--max-new-tokens", "0"], ["--temperature", "nan"]):
        with pytest.raises(SystemExit) as caught:
            main(["generate", stories, "Once", *wrong])
        assert caught.value.code == 2


@pytest.fixture
def talk(stories, capsys, monkeypatch):
    """Runs a chat over lines; gives what was printed."""

    def run(*lines, options=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        arguments = ["chat", stories, "--temperature", "0", "--max-new-tokens", "12", *options]
        assert main(arguments) == 0
        return capsys.readouterr()

    return run


def answers(shown):
    return [json.loads(line) for line in shown.out.splitlines()]


def test_chat_keeps_a_history_until_it_is_reset(talk):
    first, second, again, told = answers(talk("Hi", "Hi", "/reset", "Hi", "/system Be a cat.", "Hi", options=["--json"]))
    assert second["prompt_tokens"] > first["prompt_tokens"]
    assert (again["text"], again["prompt_tokens"]) == (first["text"], first["prompt_tokens"])
    assert first["prompt_tokens"] < told["prompt_tokens"] < second["prompt_tokens"] + told["prompt_tokens"]
    assert answers(talk("Hi", options=["--json", "--system", "Be a cat."]))[0]["text"] == told["text"]
    assert first["tokens"] == 12 and first["finish"] == "length"


def test_chat_shows_text_and_speed(talk):
    shown = talk("Hi", "", "/help", "/quit", "never")
    assert shown.out.strip() and shown.err.count("tokens/s]") == 1
    assert "/system TEXT" in shown.err


def test_chat_refuses_a_question_too_long(talk):
    shown = talk("word " * 600, "Hi", options=["--json"])
    assert "tokens of 512; /reset begins anew" in shown.err
    assert len(answers(shown)) == 1


def test_ctrl_c_stops_the_answer_only(talk, monkeypatch):
    from pygpukit.cli import chat

    shown, write = [], chat.write

    def interrupted(text):
        shown.append(text)
        if len(shown) == 4:
            raise KeyboardInterrupt
        write(text)

    monkeypatch.setattr(chat, "write", interrupted)
    printed = talk("Hi", "Hi")
    assert printed.err.count("[4 tokens") == 1 and ", stopped]" in printed.err
    assert printed.err.count("[12 tokens") == 1


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_a_real_ctrl_c(assets):
    command = [sys.executable, "-m", "pygpukit", "chat", str(assets / "stories15M"), "--max-new-tokens", "200", "--temperature", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as program:
        program.stdin.write("Hi\n")
        program.stdin.flush()
        assert program.stdout.read(1)
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate("/quit\n", timeout=120)
    assert program.returncode == 0 and ", stopped]" in errors


def test_the_example_prints_a_conversation(stories):
    environment = dict(os.environ, PYGPUKIT_DEVICE="cpu")
    command = [sys.executable, EXAMPLE, stories, "Hi", "More"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("> ")] == ["> Hi", "> More"]
    assert subprocess.run(command[:2], capture_output=True, text=True).returncode == 1


def test_the_engine_is_left_idle(stories):
    import argparse

    from pygpukit.cli.language import Session, add_arguments

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    session = Session.open(parser.parse_args([stories, "--device", "cpu"]))

    def stop(text):
        raise KeyboardInterrupt

    answer = session.answer(session.tokenizer.encode("Once"), stop)
    assert (answer.finish, answer.tokens) == ("interrupted", 1)
    assert session.engine is not None and session.engine.idle() and session.model.device == gp.device("cpu")
