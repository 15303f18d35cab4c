"""Two tenants: a greedy neighbour meets its own wall, the other goes on."""

import pygpukit as gp
import pygpukit.runtime as rt

MB = 1024 * 1024

limits = rt.PartitionLimits().compute(0.5).bandwidth(0.5)
manager = rt.PartitionManager(rt.PartitionConfig(total_memory=256 * MB))
manager.create_partition("service", "the service", limits.memory(64 * MB))
manager.create_partition("batch", "the neighbour", limits.memory(32 * MB))

held = []
with manager.session("batch"):
    try:
        while True:
            held.append(gp.ones((1024, 1024)))  # 4 MiB each
    except MemoryError:
        print("the neighbour holds", len(held), "arrays and is refused the next")

with manager.session("service"):
    x = gp.ones((1024, 1024))
    print("the service computes on:", float((x + x).sum()))

usage = manager.usage("batch")
print("neighbour:", usage.memory_used // MB, "of", usage.memory_limit // MB, "MiB")
held.clear()
del x
manager.clear()
