"""The interpreter ends cleanly while daemon threads are inside the library."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The main thread ends at different points of what the others do.
PROGRAM = """
import logging, threading, time
import pygpukit as gp
from pygpukit import runtime
from pygpukit.scheduler import Scheduler

logging.basicConfig(level=logging.DEBUG, stream=open({devnull!r}, "w"))

def serve(work):
    with gp.device("cpu"):
        while True:
            work()

with gp.device("cpu"):
    x = gp.ones((96, 96))
    out = gp.empty((96, 96))
    big = gp.ones(1 << 20)
    stream = gp.Stream(device="cpu")
    scheduler = Scheduler()
work = [{work}]
for each in work:
    threading.Thread(target=serve, args=(each,), daemon=True).start()
time.sleep({sleep})
"""

WORK = {
    "waits for a result": "lambda: x.sum().item()",
    "products": "lambda: gp.matmul(x, x), lambda: gp.matmul(x, x, out=out)",
    "copies": "lambda: big.to_numpy(), lambda: gp.from_numpy(big.to_numpy())",
    "synchronises": "lambda: gp.synchronize(), lambda: stream.synchronize()",
    "runs callables": "lambda: (scheduler.submit(lambda: sum(range(5000))), scheduler.run())",
    "destroys": "lambda: runtime.EvictionGroup('g', device='cpu')",
    "many at once": "*[lambda: (big + 1).sum().item()] * 4",
}


@pytest.mark.parametrize("work", list(WORK.values()), ids=list(WORK))
def test_daemon_threads_inside_a_call_do_not_abort_the_exit(work, tmp_path):
    for attempt in range(6):
        program = PROGRAM.format(work=work, sleep=0.01 * attempt, devnull=str(tmp_path / "log"))
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0 and done.stderr == "", (attempt, done.returncode, done.stderr)
