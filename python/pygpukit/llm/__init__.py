"""Language models: text in, text out."""

from __future__ import annotations

from pygpukit.llm.chat import (
    ChatMessage,
    ThinkingParser,
    apply_chat_template,
    create_chat_prompt,
    format_chat_messages,
)
from pygpukit.llm.tokenizer import Tokenizer, TokenStream

__all__ = [
    "ChatMessage",
    "ThinkingParser",
    "TokenStream",
    "Tokenizer",
    "apply_chat_template",
    "create_chat_prompt",
    "format_chat_messages",
]
