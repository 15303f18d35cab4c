"""What pygpukit.llm formats conversations with; internal."""

from typing import Any


class ChatMessage:
    """One message of a conversation."""

    def __init__(self, role: str, content: str) -> None: ...

    @property
    def role(self) -> str:
        """system, user or assistant."""

    @role.setter
    def role(self, arg: str, /) -> None: ...

    @property
    def content(self) -> str: ...

    @content.setter
    def content(self, arg: str, /) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __repr__(self) -> str: ...

def format_chat_messages(messages: Any, model_type: str = 'chatml', add_generation_prompt: bool = True) -> str:
    """
    The prompt of a conversation in the form of a family: chatml, qwen, llama2, llama3, mistral; of others chatml.
    """

def _format_like(messages: Any, chat_template: str, add_generation_prompt: bool = True) -> str:
    """
    In the form of the family whose marks a Jinja template writes; internal.
    """

class ThinkingParser:
    """Splits streamed text into thoughts (<think>...</think>) and answer."""

    def __init__(self, in_thinking: bool = False) -> None: ...

    def add_text(self, text: str) -> tuple[str, str]:
        """
        What the text adds: (thinking, response). The beginning of a tag waits for its rest.
        """

    def flush(self) -> tuple[str, str]:
        """What waited: (thinking, response)."""

    def reset(self) -> None:
        """Begins again."""

    @property
    def in_thinking(self) -> bool: ...

    @property
    def thinking_content(self) -> str:
        """All thoughts so far."""

    @property
    def response_content(self) -> str:
        """All of the answer so far."""
