"""An agent shows a model's answer while the model writes it, and says the whole in the end.

    supervisor run examples/streaming.py:narrator 'the tide'

Each piece is shown to all who watch the session, and is a heartbeat: a model that writes for minutes does not stall,
and one that falls silent does. The journal has the answer once, as the result of its step. A run that is resumed later
gets it from there, and streams nothing again. Put your model's client in the place of `answer`.
"""

from collections.abc import AsyncIterator

import anyio

from supervisor import Context, StepContext, agent


async def answer(prompt: str) -> AsyncIterator[str]:
    """Stands for the stream of a model's client."""
    for word in f"Here is what I know about {prompt}: it comes, it stays a while, and it goes.".split():
        await anyio.sleep(0.1)
        yield word + " "


async def ask_model(step: StepContext, prompt: str) -> str:
    pieces = []
    async for piece in answer(prompt):
        step.stream(piece)
        pieces.append(piece)
    return "".join(pieces).strip()


@agent(inactivity_timeout=30)
async def narrator(ctx: Context, subject: str) -> str:
    return await ctx.step(
        ask_model, subject
    )  # what it returns is its last message; in between, ctx.send says the whole
