"""An agent loop around any OpenAI-compatible endpoint: each tool call waits for you, and all of it survives a kill -9.

pip install . httpx
export OPENAI_BASE_URL=https://.../v1 OPENAI_API_KEY=... OPENAI_MODEL=...
supervisor run chat_loop.py:chat 'Which of my folders could be tidied up?' --session tidy
supervisor send tidy 'And which of them is the largest?' && supervisor resume tidy    # it knows what was said before
"""

import os
from typing import Any

import httpx

from supervisor import AgentSpec, Context, ToolCall, agent
from supervisor.tools import shell


async def ask_model(messages: list[Any], tools: list[Any]) -> Any:
    """Return the model's next message: a step, so it is asked again only if its answer was not on disk yet."""
    functions = [{"type": "function", "function": tool} for tool in tools]
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": functions}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    async with httpx.AsyncClient(timeout=None) as http:  # the watchdog ends a silent model call
        reply = await http.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, headers=headers)
    return reply.raise_for_status().json()["choices"][0]["message"]


async def answer(ctx: Context, call: Any, reply: dict[str, Any]) -> None:
    function = call["function"]
    result = await ctx.call(ToolCall(call["id"], function["name"], function["arguments"]))
    reply.update(role="tool", tool_call_id=call["id"], content=result.content)


async def converse(ctx: Context, spec: AgentSpec[..., str], prompt: str) -> str:
    earlier = [message for turn in ctx.saved_before() for message in turn]
    turn: list[Any] = ctx.saved or [{"role": "user", "content": prompt}]
    while turn[-1]["role"] != "assistant":
        async with ctx.model_call():
            said = await ctx.step(ask_model, earlier + turn, spec.tool_schemas())
        calls: list[Any] = said.get("tool_calls") or []
        replies: list[dict[str, Any]] = [{} for _ in calls]
        async with ctx.task_group() as group:
            for call, reply in zip(calls, replies, strict=True):
                group.start_soon(answer, call, reply)
        turn += [said, *replies]
    await ctx.save(turn)  # for the next turn
    return str(turn[-1]["content"])


@agent(tools=[shell])
async def researcher(ctx: Context, question: str) -> str:
    """Find something out with shell commands, and report."""
    return await converse(ctx, researcher, question)


@agent(tools=[shell, researcher])
async def chat(ctx: Context, prompt: str) -> str:
    return await converse(ctx, chat, prompt)
