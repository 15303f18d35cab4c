"""Models larger than their memory, layer by layer: which layers a LazyModelLoader holds while they are walked through.

>>> with create_streaming_context(loader, "sliding", num_layers=32) as context:  # doctest: +SKIP
...     for i in range(32):
...         context.prepare(i)
...         q = loader.get(context.layer_prefix(i) + "self_attn.q_proj.weight")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pygpukit.llm.safetensors import LazyModelLoader, PoolStats

__all__ = [
    "AutoLRU",
    "LayerStreamingContext",
    "LoadingStrategy",
    "SimpleStreaming",
    "SlidingWindow",
    "create_streaming_context",
]

PREFIX = "model.layers.{}."


class LoadingStrategy(ABC):
    """What is loaded and given up around each layer."""

    @staticmethod
    def layer_prefix(layer_idx: int, template: str = PREFIX) -> str:
        """What the names of a layer's tensors begin with."""
        return template.format(layer_idx)

    def on_start(self, loader: LazyModelLoader, num_layers: int) -> None:  # noqa: B027
        """Before the first layer."""

    @abstractmethod
    def on_layer_start(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:
        """Before a layer is computed."""

    def on_layer_end(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:  # noqa: B027
        """When another layer follows it, and at the end."""

    def on_end(self, loader: LazyModelLoader, num_layers: int) -> None:  # noqa: B027
        """After the last layer."""


@dataclass
class SimpleStreaming(LoadingStrategy):
    """One layer at a time: loaded before it is computed, given up after it."""

    prefix_template: str = PREFIX

    def on_layer_start(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:
        loader.prefetch(self.layer_prefix(layer_idx, self.prefix_template))

    def on_layer_end(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:
        loader.unload_layer(self.layer_prefix(layer_idx, self.prefix_template))


@dataclass
class SlidingWindow(LoadingStrategy):
    """A layer, ``prefetch_ahead`` ones after it, and as many before it as the window has left."""

    window_size: int = 4
    prefetch_ahead: int = 1
    prefix_template: str = PREFIX

    def __post_init__(self) -> None:
        if self.window_size < 1:
            raise ValueError(f"SlidingWindow: window_size must be at least 1, got {self.window_size}")
        if not 0 <= self.prefetch_ahead < self.window_size:
            raise ValueError(f"SlidingWindow: prefetch_ahead must be 0 to window_size - 1, got {self.prefetch_ahead}")

    def on_layer_start(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:
        last = min(layer_idx + self.prefetch_ahead, num_layers - 1)
        for i in range(last - self.window_size + 1):
            loader.unload_layer(self.layer_prefix(i, self.prefix_template))
        for i in range(layer_idx, last + 1):
            loader.prefetch(self.layer_prefix(i, self.prefix_template))

    def on_end(self, loader: LazyModelLoader, num_layers: int) -> None:
        for i in range(num_layers):
            loader.unload_layer(self.layer_prefix(i, self.prefix_template))


@dataclass
class AutoLRU(LoadingStrategy):
    """The loader alone decides: what was used longest ago makes room."""

    prefix_template: str = PREFIX
    unload_on_end: bool = False

    def on_layer_start(self, loader: LazyModelLoader, layer_idx: int, num_layers: int) -> None:
        """Nothing: a layer is loaded by its first use."""

    def on_end(self, loader: LazyModelLoader, num_layers: int) -> None:
        if self.unload_on_end:
            loader.unload_model()


class LayerStreamingContext:
    """A walk through the layers of a model. ``prepare(i)`` before each makes the strategy load and give up."""

    def __init__(
        self, loader: LazyModelLoader, strategy: LoadingStrategy, num_layers: int, prefix_template: str = PREFIX
    ) -> None:
        if num_layers < 1:
            raise ValueError(f"LayerStreamingContext: num_layers must be at least 1, got {num_layers}")
        self.loader, self.strategy, self.num_layers = loader, strategy, num_layers
        self.prefix_template = prefix_template
        self._current: int | None = None

    def __enter__(self) -> LayerStreamingContext:
        self.strategy.on_start(self.loader, self.num_layers)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self.strategy.on_end(self.loader, self.num_layers)

    def _leave(self) -> None:
        if self._current is not None:
            layer, self._current = self._current, None
            self.strategy.on_layer_end(self.loader, layer, self.num_layers)

    def prepare(self, layer_idx: int) -> None:
        """Ends the layer before and begins this one."""
        if not 0 <= layer_idx < self.num_layers:
            raise IndexError(f"LayerStreamingContext: layer {layer_idx} is not one of {self.num_layers}")
        if layer_idx == self._current:
            return
        self._leave()
        self._current = layer_idx
        self.strategy.on_layer_start(self.loader, layer_idx, self.num_layers)

    def layer_prefix(self, layer_idx: int) -> str:
        """What the names of a layer's tensors begin with."""
        return self.prefix_template.format(layer_idx)

    @property
    def current_layer(self) -> int | None:
        """The one that was prepared last, until it ends."""
        return self._current

    @property
    def memory_stats(self) -> PoolStats:
        return self.loader.pool_stats


_STRATEGIES: dict[str, type[Any]] = {
    "simple": SimpleStreaming, "sliding": SlidingWindow, "sliding_window": SlidingWindow, "lru": AutoLRU,
    "auto_lru": AutoLRU,
}  # fmt: skip


def create_streaming_context(
    loader: LazyModelLoader,
    strategy: str | LoadingStrategy = "simple",
    num_layers: int = 1,
    prefix_template: str = PREFIX,
    **options: Any,
) -> LayerStreamingContext:
    """A context with a strategy of its own, or with one by name: simple, sliding_window or auto_lru."""
    if isinstance(strategy, str):
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be simple, sliding_window or auto_lru, got {strategy!r}")
        chosen = _STRATEGIES[strategy](prefix_template=prefix_template, **options)
    elif options:
        raise TypeError("options belong to a strategy given by name")
    else:
        chosen = strategy
    return LayerStreamingContext(loader, chosen, num_layers, prefix_template)
