"""Chat prompts of the families, Jinja templates, and the parser of thoughts."""

import builtins
import logging

import pytest

from pygpukit.llm import (
    ChatMessage,
    ThinkingParser,
    Tokenizer,
    apply_chat_template,
    create_chat_prompt,
    format_chat_messages,
)
from pygpukit.llm.chat import render_chat_template

TALK = [
    ChatMessage("system", "Be brief."),
    {"role": "user", "content": "Hi"},
    ChatMessage("assistant", "Hello"),
    ChatMessage("user", "Bye"),
]
CHATML = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
)
LLAMA3 = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
    "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
)


@pytest.mark.parametrize(
    ("family", "prompt"),
    [
        *((name, CHATML) for name in ("chatml", "qwen", "qwen2", "qwen3", "Qwen3-8B", "never heard of")),
        ("llama3", LLAMA3),
        ("meta-llama/Llama-3.2-1B", LLAMA3),
        ("llama2", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]"),
        ("mistral", "<s>[INST] Be brief.\n\nHi [/INST] Hello</s>[INST] Bye [/INST]"),
    ],
)
def test_families(family, prompt):
    assert format_chat_messages(TALK, model_type=family) == prompt
    assert format_chat_messages([], family, add_generation_prompt=False) in ("", "<|begin_of_text|>", "<s>")


def test_forms_without_a_place_for_a_message():
    with pytest.raises(ValueError, match="alternate"):
        format_chat_messages([ChatMessage("assistant", "Hi")], "mistral")
    with pytest.raises(ValueError, match="system where user was due"):
        format_chat_messages([*TALK[:3], TALK[0]], "llama2")
    with pytest.raises(TypeError, match="role and content"):
        format_chat_messages([{"role": "user"}])
    with pytest.raises(TypeError, match="content"):
        format_chat_messages([{"role": "user", "content": 3}])


def test_create_chat_prompt():
    assert create_chat_prompt("Hi") == [ChatMessage("user", "Hi")]
    roles = [message.role for message in create_chat_prompt("Hi", "Be brief.", "Well,")]
    assert roles == ["system", "user", "assistant"]
    message = ChatMessage(role="user", content="it's")
    assert repr(message) == "ChatMessage(role='user', content=\"it's\")"
    message.content = "x"
    assert message != ChatMessage("user", "it's")


def test_qwen_template_in_ids(assets):
    pytest.importorskip("jinja2")
    tokenizer = Tokenizer(assets / "tokenizers/qwen3")
    assert tokenizer.decode(apply_chat_template(TALK, tokenizer), skip_special_tokens=False) == CHATML
    quiet = apply_chat_template(TALK, tokenizer, return_tensors="np", enable_thinking=False)
    assert quiet.shape[0] == 1
    assert tokenizer.decode(quiet[0], skip_special_tokens=False) == CHATML + "<think>\n\n</think>\n\n"
    with pytest.raises(ValueError, match="return_tensors"):
        apply_chat_template(TALK, tokenizer, return_tensors="pt")


def test_a_template_without_jinja2_is_told_and_takes_its_family(assets, monkeypatch, caplog):
    tokenizer = Tokenizer(assets / "tokenizers/qwen3")
    real = builtins.__import__

    def without_jinja2(name, *rest):
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_jinja2)
    with caplog.at_level(logging.WARNING, logger="pygpukit"):
        ids = apply_chat_template(TALK, tokenizer)
    assert tokenizer.decode(ids, skip_special_tokens=False) == CHATML
    assert "pygpukit[llm]" in caplog.text


def test_templates_run_in_the_sandbox():
    jinja2 = pytest.importorskip("jinja2")
    assert render_chat_template("{{ bos }}{{ messages[0].content | tojson }}", TALK, bos="<s>") == '<s>"Be brief."'
    with pytest.raises(ValueError, match="no system"):
        render_chat_template("{{ raise_exception('no system') }}", TALK)
    for hostile in ("{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% for i in range(10**9) %}{% endfor %}"):
        with pytest.raises((jinja2.exceptions.SecurityError, OverflowError)):
            render_chat_template(hostile, TALK)


def test_a_tokenizer_with_a_template_of_its_own_is_asked():
    class Other:
        def apply_chat_template(self, messages, add_generation_prompt):
            return [len(messages), int(add_generation_prompt), int(all(isinstance(m, dict) for m in messages))]

    assert apply_chat_template(TALK, Other(), add_generation_prompt=False) == [4, 0, 1]


def test_a_tokenizer_without_one_gets_the_form_of_its_name():
    class Named:
        name_or_path = "mistralai/Mistral-7B"

        def encode(self, text, add_special_tokens):
            return [text, add_special_tokens]

    assert apply_chat_template(TALK[1:2], Named()) == ["<s>[INST] Hi [/INST]", False]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_thoughts_are_split_wherever_the_text_is_cut(size):
    text = "a <b <think>x </thin y</think>answer < <think>more"
    parser = ThinkingParser()
    parts = [parser.add_text(text[i : i + size]) for i in range(0, len(text), size)] + [parser.flush()]
    assert "".join(thinking for thinking, _ in parts) == parser.thinking_content == "x </thin ymore"
    assert "".join(response for _, response in parts) == parser.response_content == "a <b answer < "
    assert parser.in_thinking
    parser.reset()
    assert (parser.in_thinking, parser.thinking_content, parser.response_content) == (False, "", "")


def test_thoughts_that_the_prompt_began():
    parser = ThinkingParser(in_thinking=True)
    assert parser.add_text("x</think>y</thi") == ("x", "y</thi")
    assert parser.add_text("<thi") == ("", "")
    assert parser.flush() == ("", "<thi")
    parser.reset()
    assert parser.in_thinking
