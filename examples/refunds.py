"""Refunds that wait for a person, in a program without an event loop: Flask, Django, Celery, or this command.

    $ python refunds.py ask order-7 49.90
    $ python refunds.py list
    $ python refunds.py approve ID          # by you, also after the first process was killed

Needs nothing but the supervisor. docs/how-to/flask-django-celery.md shows the same functions in web applications.
"""

import sys
from functools import cache

from supervisor import Approve, Context, DecisionResult, RunError, agent, id_from, tool
from supervisor.blocking import BlockingRun, BlockingSupervisor, open_supervisor


@tool(secret=["key"])
def pay_back(order: str, amount: float, key: str = "") -> str:
    """Call the bank, as slowly as it likes: this is a plain function, which runs in a thread."""
    return f"{amount:.2f} paid back for {order}"


@agent
async def refund(ctx: Context, asked: dict[str, str]) -> str:
    result = await ctx.call(pay_back, asked["order"], float(asked["amount"]), because="the customer asks for it")
    return result.content


@cache
def desk() -> BlockingSupervisor:
    """Open the store at the first use, in the process that serves requests."""
    return open_supervisor("refunds.db", agents=[refund], adopt=True)


def ask_for_refund(order: str, amount: str) -> BlockingRun[str]:
    return desk().start(refund, {"order": order, "amount": amount}, session=id_from("refund", order))


def approve(approval: str, user: str) -> DecisionResult:
    return desk().decide(approval, Approve(by=user))


def main(command: str, *given: str) -> None:
    if command == "ask":
        ask_for_refund(*given)
    if command == "list":
        for approval in desk().approvals():
            print(approval.id, approval.tool, approval.arguments)
    if command == "approve":
        session = desk().get_approval(given[0]).session
        print(approve(given[0], "you").kind)
        try:
            print(desk().result(session, timeout=60))
        except (RunError, TimeoutError) as error:
            print(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
