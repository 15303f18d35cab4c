"""Models larger than the quota: the least recently used one waits in host memory and loses nothing."""

import pygpukit as gp
from pygpukit.memory import MemoryPool, set_default_pool

MB = 1024 * 1024

pool = MemoryPool(quota=40 * MB, enable_eviction=True)
set_default_pool(pool)

# Three models of 16 MiB behind a wall of 40.
models = {name: [gp.full((1024, 1024), float(i)) for _ in range(4)] for i, name in enumerate("ABC")}


def run(name):
    return float(sum(layer[0, 0].item() for layer in models[name]))


for name in "ABCABC":
    print("model", name, "gives", run(name))

stats = pool.stats()
print("behind the wall:", stats["used"] <= 40 * MB)
print("blocks were moved:", stats["eviction_count"] > 0)
models.clear()
set_default_pool(None)
