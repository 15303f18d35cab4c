"""No result depends on what ran before: whatever is left in the workspace of its stream, a call gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from test_capture_every_op import EVERY_CALL, bits, like

from pygpukit._core import runtime

# NaN in every float dtype and -1; large numbers; nothing.
WORDS = (0xFFFFFFFF, 0x7B7B7B7B, 0)


@pytest.mark.parametrize("call", EVERY_CALL)
def test_what_was_left_changes_no_bit(call, device, rng):
    arrays, others = call.make(rng), call.make(np.random.default_rng(99))
    expected = call.run(arrays)
    out = like(expected)
    for word in (None, *WORDS):
        if word is None:
            call.run(others, out=out)
        else:
            runtime._fill_workspaces(word)
        call.run(arrays, out=out)
        assert bits(out) == bits(expected), "after other numbers" if word is None else f"after {word:#x}"
