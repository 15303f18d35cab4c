"""Language models: text in, text out."""

from __future__ import annotations

from pygpukit._core._text import Tokenizer, TokenStream

__all__ = ["TokenStream", "Tokenizer"]
