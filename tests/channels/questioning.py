"""A program whose agent asks four questions at the terminal, one after the other. Arguments: backend, store."""

import json
import sys

import anyio

from supervisor import Context, QuestionUnanswered, agent, open_supervisor
from supervisor.channels import Terminal


@agent
async def questioner(ctx: Context) -> list[str | bool]:
    answers = [
        await ctx.ask("Which\x1b]0;owned\x07\u202e one?", choices=["staging", "deny\x1b[2J"]),
        await ctx.ask("Sure?", schema=bool),
        await ctx.ask("Since when?"),
    ]
    try:
        await ctx.ask("Anything else?")
    except QuestionUnanswered as declined:
        answers.append(str(declined))
    return answers


async def main(store: str) -> None:
    async with open_supervisor(store, channels=[Terminal(by="ana", settle=0, store=store)]) as supervisor:
        run = await supervisor.start(questioner, session="questioning")
        print(json.dumps(await run.result()), flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[2], backend=sys.argv[1])
