"""The classes of pygpukit.llm that handle text; internal."""

from typing import Any


class Tokenizer:
    """Text to token ids and back, as a tokenizer.json says. Experimental."""

    def __init__(self, path: Any, backend: str = 'pygpukit') -> None: ...

    @staticmethod
    def from_json(json: str, config: str | None = None) -> Tokenizer:
        """From the text of a tokenizer.json, and of its tokenizer_config.json."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; by default with those the file puts around it."""

    def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
        """The text of token ids. Raises OutOfRangeError for an unknown id."""

    def id_to_token(self, token_id: Any) -> str | None:
        """A token as the vocabulary spells it, or None."""

    def token_to_id(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it, or None."""

    def stream(self, skip_special_tokens: bool = True) -> TokenStream:
        """A TokenStream: text of ids as they come."""

    def __len__(self) -> int: ...

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included."""

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text, or None."""

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text, or None."""

    @property
    def pad_token_id(self) -> int | None:
        """The token that fills rows, or None."""

    @property
    def special_token_ids(self) -> list[int]:
        """Ids that decode leaves out, ascending."""

    @property
    def chat_template(self) -> str | None:
        """The Jinja text of the file's chat template, or None."""

class TokenStream:
    """Text of token ids as they come; never half a character."""

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None: ...

    def push(self, token_id: Any) -> str:
        """The text that a token completes; often empty."""

    def flush(self) -> str:
        """What is left; the next push begins a new text."""
