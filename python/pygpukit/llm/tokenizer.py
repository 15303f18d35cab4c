"""Tokenizers: our own, and one with the same methods over the package `tokenizers`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pygpukit._core._text import Tokenizer, TokenStream

__all__ = ["TokenStream", "Tokenizer", "TokenizersTokenizer"]


class TokenizersStream:
    """Text of token ids as they come, by `tokenizers`."""

    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self._tokenizer, self._skip = tokenizer, skip_special_tokens
        self._ids: list[int] = []
        self._given = ""

    def push(self, token_id: int) -> str:
        """The text that a token completes; often empty."""
        self._ids.append(token_id)
        text = self._tokenizer.decode(self._ids, skip_special_tokens=self._skip)
        return "" if text.endswith("\ufffd") else self._give(text)

    def flush(self) -> str:
        """What is left; the next push begins a new text."""
        rest = self._give(self._tokenizer.decode(self._ids, skip_special_tokens=self._skip))
        self._ids, self._given = [], ""
        return rest

    def _give(self, text: str) -> str:
        new = text[len(self._given) :]
        self._given = text
        return new


class TokenizersTokenizer:
    """What `Tokenizer(path, backend="tokenizers")` gives: any tokenizer.json, read by the package `tokenizers`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import tokenizers

        file = Path(path, "tokenizer.json") if Path(path).is_dir() else Path(path)
        self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        config = file.with_name("tokenizer_config.json")
        self._config = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        self.chat_template: str | None = self._config.get("chat_template")
        self.bos_token_id = self._named("bos_token")
        self.eos_token_id = self._named("eos_token")
        self.pad_token_id = self._named("pad_token")

    def _named(self, name: str) -> int | None:
        token = self._config.get(name)
        content = token["content"] if isinstance(token, dict) else token
        return None if content is None else self.token_to_id(content)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; by default with those the file puts around it."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, token_ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of token ids."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    def stream(self, skip_special_tokens: bool = True) -> TokenizersStream:
        """Text of ids as they come."""
        return TokenizersStream(self._tokenizer, skip_special_tokens)

    def id_to_token(self, token_id: int) -> str | None:
        """A token as the vocabulary spells it, or None."""
        token: str | None = self._tokenizer.id_to_token(token_id)
        return token

    def token_to_id(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it, or None."""
        number: int | None = self._tokenizer.token_to_id(token)
        return number

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included."""
        size: int = self._tokenizer.get_vocab_size()
        return size

    @property
    def special_token_ids(self) -> list[int]:
        """Ids that decode leaves out, ascending."""
        added = self._tokenizer.get_added_tokens_decoder()
        return sorted(token_id for token_id, token in added.items() if token.special)
