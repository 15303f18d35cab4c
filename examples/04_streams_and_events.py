"""Streams order work, events mark points in it. The same rules hold on the CPU."""

import pygpukit as gp

manager = gp.StreamManager()
loader, worker = manager.create_stream("high"), manager.create_stream("low")
print("streams:", loader.priority.name, worker.priority.name)

# `with stream:` makes it the current stream of this thread or asyncio task.
with loader:
    x = gp.full((1000,), 2.0)
    ready = gp.CudaEvent()
    ready.record()

# Two streams are not ordered. What worker submits from here on runs after the event; the host does not wait.
worker.wait(ready)
with worker:
    y = gp.mul(x, 3.0)
worker.synchronize()
print("after the wait:", y[0].item())

# Time between two points of one stream, as the device saw them.
start, stop = gp.CudaEvent(), gp.CudaEvent()
a, b = gp.ones((256, 256)), gp.ones((256, 256))
start.record()
c = a @ b
stop.record()
stop.synchronize()
print("product:", c[0, 0].item())
print("here: it took", round(gp.event_elapsed_us(start, stop), 1), "us")
print("in order:", gp.event_elapsed_ms(start, stop) >= 0.0)

manager.synchronize_all()
print("idle:", loader.query(), worker.query())
