"""The runtime core: memory pool, scheduler, transfers, dispatch, partitions, devices.

Importing this gives the extension's own module, with its sub-modules ``memory``, ``scheduler``, ``transfer``,
``dispatch`` and ``device``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygpukit._core.runtime import *  # noqa: F403
else:
    from pygpukit._startup import alias_runtime

    alias_runtime(__name__)
