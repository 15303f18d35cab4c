"""Record work once, replay it with one call, and check that a replay gives the eager bits."""

import pygpukit as gp

x = gp.ones((1000,))
y = gp.empty_like(x)

graph = gp.CudaGraph()
with graph.capture():
    # No allocation inside a capture: every operation writes into an array that exists.
    gp.mul(x, 2.0, out=y)
    gp.add(y, 1.0, out=y)
print("nodes:", graph.num_nodes)

graph.replay()
print("x = 1:", y[0].item())

# The graph reads the buffers as they are at each replay.
x.fill(10.0)
graph.replay()
print("x = 10:", y[0].item())

# Replays, issues the same work one by one from the same start, compares every written byte, puts the start back.
print("verified:", graph.verify())

# What cannot be captured raises and says why; the graph stays empty.
refused = gp.CudaGraph()
try:
    with refused.capture():
        gp.mul(x, 2.0)
except RuntimeError as error:
    print("refused:", str(error).partition(": ")[2])
print("ready:", refused.is_ready())
