"""asyncio with two models: each task keeps its own context across every await."""

import asyncio

import pygpukit as gp
from pygpukit.scheduler import MB, context_session, create_context, get_context_usage


async def generate(context, start, steps):
    async with context_session(context):
        x = gp.full((64, 64), start)
        for _ in range(steps):
            x = x * 2.0
            await asyncio.sleep(0)  # the other model's turn
        return float(x[0, 0])


async def main():
    chat = create_context("chat", max_vram=32 * MB)
    code = create_context("code", max_vram=32 * MB)
    results = await asyncio.gather(generate(chat, 1.0, 8), generate(code, 3.0, 8))
    print("chat:", results[0], "code:", results[1])
    for context in (chat, code):
        usage = get_context_usage(context.llm_id)
        print(context.llm_id, "launched work:", usage["launches"] > 0)
        context.destroy()


asyncio.run(main())
