"""Conversations as prompts: a model's own Jinja template through jinja2, or the forms of the known families."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pygpukit._core._chat import ChatMessage, ThinkingParser, _format_like, format_chat_messages

__all__ = [
    "ChatMessage",
    "ThinkingParser",
    "apply_chat_template",
    "create_chat_prompt",
    "format_chat_messages",
    "render_chat_template",
]

Message = ChatMessage | Mapping[str, Any]


def create_chat_prompt(
    user_message: str, system_message: str | None = None, assistant_prefix: str | None = None
) -> list[ChatMessage]:
    """The messages of one question: a system message and the beginning of an answer where they are given."""
    texts = (("system", system_message), ("user", user_message), ("assistant", assistant_prefix))
    return [ChatMessage(role, text) for role, text in texts if text is not None]


def _raise_exception(message: str) -> None:
    raise ValueError(f"chat template: {message}")


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def render_chat_template(
    chat_template: str, messages: Sequence[Message], add_generation_prompt: bool = True, **variables: Any
) -> str:
    """The text of a Jinja chat template, rendered by jinja2 in its sandbox. `variables` are what else it may use."""
    import jinja2.sandbox

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    dicts = [{"role": m.role, "content": m.content} if isinstance(m, ChatMessage) else dict(m) for m in messages]
    template = environment.from_string(chat_template)
    return template.render(messages=dicts, add_generation_prompt=add_generation_prompt, **variables)


def _special_texts(tokenizer: Any) -> dict[str, str]:
    ids = {name: getattr(tokenizer, f"{name}_id", None) for name in ("bos_token", "eos_token", "pad_token")}
    return {name: tokenizer.id_to_token(token) or "" for name, token in ids.items() if token is not None}


def _prompt_text(
    messages: Sequence[Message], tokenizer: Any, add_generation_prompt: bool, variables: dict[str, Any]
) -> str:
    chat_template = getattr(tokenizer, "chat_template", None)
    if chat_template is None:
        return format_chat_messages(messages, getattr(tokenizer, "name_or_path", ""), add_generation_prompt)
    try:
        import jinja2  # noqa: F401
    except ImportError:
        logging.getLogger("pygpukit").warning(
            "jinja2 is missing (pip install 'pygpukit[llm]'): the plain form of the template's family is used"
        )
        return _format_like(messages, chat_template, add_generation_prompt)
    return render_chat_template(
        chat_template, messages, add_generation_prompt, **{**_special_texts(tokenizer), **variables}
    )


def apply_chat_template(
    messages: Sequence[Message],
    tokenizer: Any,
    add_generation_prompt: bool = True,
    return_tensors: str | None = None,
    **variables: Any,
) -> Any:
    """Token ids of a conversation: a list, or with return_tensors="np" an int64 array [1, tokens].

    A tokenizer with a method of this name is asked. One with a chat template has it rendered, with `variables` such as
    enable_thinking; any other gets the form of the family that its name_or_path is of.
    """
    if return_tensors not in (None, "np"):
        raise ValueError(f"apply_chat_template: return_tensors must be None or 'np', got {return_tensors!r}")
    if hasattr(tokenizer, "apply_chat_template"):
        dicts = [{"role": m.role, "content": m.content} if isinstance(m, ChatMessage) else m for m in messages]
        ids = tokenizer.apply_chat_template(dicts, add_generation_prompt=add_generation_prompt, **variables)
    else:
        text = _prompt_text(messages, tokenizer, add_generation_prompt, variables)
        ids = tokenizer.encode(text, add_special_tokens=False)
    return list(ids) if return_tensors is None else np.array([ids], dtype=np.int64)
