"""A policy in code decides the easy calls, and people decide the rest.

python policy.py                         # asks you about one refund of three; kill it and run it again, if you like
supervisor audit --store refunds.db      # who decided what
"""

import anyio

from supervisor import Approval, Approve, Context, Decision, Deny, Supervisor, agent, open_supervisor, tool
from supervisor.channels import Terminal


@tool
async def refund(order: str, amount: float) -> str:
    return f"{order}: paid {amount:.2f}"


@agent
async def clerk(ctx: Context, claims: dict[str, float]) -> list[str]:
    replies: dict[str, str] = {}

    async def settle(ctx: Context, order: str, amount: float) -> None:
        replies[order] = (await ctx.call(refund, order, amount)).content

    async with ctx.task_group() as group:
        for order, amount in claims.items():
            group.start_soon(settle, order, amount)
    return [replies[order] for order in claims]


def policy(approval: Approval) -> Decision | None:
    """Return a decision, or None if a person is to decide."""
    if approval.tool != "refund":
        return None
    amount = approval.arguments["amount"]
    if amount <= 50:
        return Approve(by="refund policy")
    if amount > 5000:
        return Deny(by="refund policy", reason="over 5000: send a form to the head office")
    return None


async def apply_policy(supervisor: Supervisor) -> None:
    async with supervisor.watch_approvals() as approvals:  # those that wait already, then each new one
        async for approval in approvals:
            if decision := policy(approval):
                await supervisor.decide(approval.id, decision)


async def main() -> None:
    async with open_supervisor("refunds.db", channels=[Terminal()]) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(apply_policy, supervisor)
        run = await supervisor.start(clerk, {"A1": 20.0, "A2": 700.0, "A3": 9000.0}, session="claims")
        print(await run.result())
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
