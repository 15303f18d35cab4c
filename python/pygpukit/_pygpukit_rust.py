"""Another name of :mod:`pygpukit.runtime`, as the 0.2 series called it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygpukit._core.runtime import *  # noqa: F403
else:
    from pygpukit._startup import alias_runtime

    alias_runtime(__name__)
