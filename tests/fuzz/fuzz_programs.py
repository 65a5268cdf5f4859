"""Cases: a random program, and a plan of the lives in which it is run. Both are JSON, made from a seed.

    case     {"seed", "backend", "program", "agent", "lives": [life...]}
    life     how the process ends, and what happens to it before (fuzz_lives.py)

Rules
- Every operation has an id of its own, so a line of effects names one operation.
- A person's answer follows from an id (`answer_to`), so that all persons give the same answer.
- Code in racing branches waits only for operations: an agent whose path depends on other waits is not promised the same
  path again. A save is only at the top level of a program, where no other operation is under way.
"""

import random
import zlib
from collections.abc import Iterator
from typing import Any

from supervisor import Answer, Approval, Approve, Decision, Deny
from supervisor.core.budgets import TOOL as BUDGET
from supervisor.core.values import Scope

FOR_PEOPLE = ("call", "receive", "ask")
LEAVES = (
    "call",
    "call",
    "call",
    "call",
    "step",
    "sleep",
    "now",
    "random",
    "receive",
    "send",
    "ask",
    "ticks",
    "model",
    "report",
)
BLOCKS = ("timer", "race", "race", "all", "child", "child", "hire", "guard")
SPANS = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1)
ENDS = ("commit", "commit", "kill", "kill", "scope", "raise", "native", "leave", "natural")
SCOPES: dict[int, Scope] = {4: "session", 5: "always"}
UNDECIDED = "u"  # the first letter of ids that stay undecided
BOUNDED = (("calls",), ("requests",), ("calls", "requests"), ("tokens",))
LIMITS = ("models", "tools", "agents")
AHEAD = (0.0, 0.0, 0.7, 30.0, -30.0, 4000.0, -4000.0, 200_000.0)
"""Seconds by which the wall clock was set forward or back."""
ALLOWED = ("risky", "risky_idem")
ASKING = (*ALLOWED, "watched")
DISKS = ((), (), (0.0, 0.001, 0.006, 0.015), (0.02,), (0.0, 0.0, 0.0, 0.3))
"""How long commits take: each a choice of these."""


def make_case(seed: int, backend: str) -> dict[str, Any]:
    """Return a case, which is the same for the same seed."""
    chance = random.Random(f"{seed} {backend}")
    maker = Maker(chance)
    agent = chance.choice(["worker", "worker", "restarter"])
    program = maker.program(agent, 0, chance.randint(2, 6))
    talks = chance.random() < 0.25
    lives = [_life(chance, talks=talks) for _ in range(chance.randint(1, 4))]
    case = {"seed": seed, "backend": backend, "agent": agent, "program": program, "talks": talks, "lives": lives}
    if chance.random() < 0.5:
        case["budget"] = {kind: chance.randint(1, 6) for kind in chance.choice(BOUNDED)}
    case["limits"] = [name for name in LIMITS if chance.random() < 0.5]  # every limit is 1
    case["per_minute"] = [name for name in LIMITS if chance.random() < 0.2]  # a minute is short here
    if chance.random() < 0.5:  # a person allows so many calls of these tools beforehand
        case["allows"] = {tool: chance.randint(1, 3) for tool in ALLOWED}
        case["allows_tree"] = chance.random() < 0.5
        case["allows_for"] = chance.choice([None, None, 0.2, 20.0])
    if chance.random() < 0.3:
        missed, running = chance.choice(["once", "skip"]), chance.choice(["skip", "after", "beside"])
        case["schedule"] = {"if_missed": missed, "if_running": running}
    for life in lives if chance.random() < 0.35 else ():
        life["clock"] = [
            [round(chance.uniform(0.0, 0.5), 3), chance.choice(AHEAD)] for _ in range(chance.randint(1, 3))
        ]
        life["clock"][0][0] = 0.0
    for life in lives:
        if chance.random() < 0.15:
            life["full"] = [chance.randint(1, 30), chance.choice([1, 2, 5, 1000])]
        if "schedule" in case and chance.random() < 0.5:
            life["others"].append({"do": "schedule", "at": round(chance.uniform(0.0, 0.3), 4)})
    return case


def _life(chance: random.Random, *, talks: bool) -> dict[str, Any]:
    end = chance.choice(ENDS)
    life: dict[str, Any] = {"end": end, "at": round(chance.uniform(0.0, 0.5) ** 1.5, 4)}
    if end == "commit":
        life |= {"n": chance.randint(1, 30), "when": chance.choice(["before", "after"])}
    life["passivate_after"] = chance.choice([0.0, 0.0, 0.01, 0.01, 60.0])
    life["disk"] = list(chance.choice(DISKS))
    life["person"] = chance.choice([None, 0.0, 0.01, 0.05])
    life["others"] = [_other(chance, talks=talks) for _ in range(chance.choice([0, 0, 1, 2]) + talks)]
    return life


def _other(chance: random.Random, *, talks: bool) -> dict[str, Any]:
    if talks and chance.random() < 0.5:
        return {"do": "talk", "at": round(chance.uniform(0.0, 0.3), 4)}
    rare = "cancel" if chance.random() < 0.3 else "decide"
    do = chance.choice(["decide", "decide", "batch", "batch", "send", "send", "adopt", "adopt", "raise", rare])
    return {"do": do, "at": round(chance.uniform(0.0, 0.3), 4)}


class Maker:
    """Makes programs, each id of which is new."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        self.refill()

    def refill(self) -> None:
        """Let the next program have as many blocks as the first."""
        self._left = 40

    def program(self, agent: str, depth: int, length: int) -> list[Any]:
        ops = []
        for _ in range(length):
            if ops and self._chance.random() < 0.12:
                ops.append({"op": "save", "id": self._id("v")})
            ops.append(self._op(agent, depth, 0, is_raced=False))
        if depth and self._chance.random() < 0.08:
            ops.append({"op": "raise", "id": self._id("x")})
        return ops

    def _id(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def _ops(self, agent: str, depth: int, nesting: int, most: int = 3, *, is_raced: bool) -> list[Any]:
        length = self._chance.randint(1, most)
        return [self._op(agent, depth, nesting + 1, is_raced=is_raced) for _ in range(length)]

    def _op(  # noqa: C901 # one case per kind
        self, agent: str, depth: int, nesting: int, *, is_raced: bool
    ) -> dict[str, Any]:
        chance = self._chance
        self._left -= 1
        is_block = self._left > 0 and chance.random() < (0.45, 0.35, 0.2, 0.0)[min(nesting, 3)]
        leaves = FOR_PEOPLE if is_raced and chance.random() < 0.4 else LEAVES
        kind = chance.choice(BLOCKS if is_block else leaves)
        if (
            (kind in ("child", "hire") and depth == 3)
            or (kind == "hire" and agent == "helper")
            or (kind == "model" and is_raced)
        ):
            kind = "call"
        op: dict[str, Any] = {"op": kind, "id": self._id(kind[0])}
        match kind:
            case "call":
                op |= self._call()
            case "step":
                op["failures"] = chance.choice([0, 0, 1, 2])
                op["raises"] = agent == "restarter"
                op["asks"] = chance.random() < 0.5
            case "sleep":
                op["seconds"] = chance.choice(SPANS)
            case "report":
                op |= {"n": chance.choice([1, 3, 300]), "kind": chance.choice(["text", "plan"])}
            case "ticks":
                op["n"] = chance.randint(1, 8)
            case "ask":
                op["choices"] = chance.random() < 0.5
                if chance.random() < 0.2:
                    op["expires_in"] = chance.choice([0.05, 0.2])
            case "model":
                op["beats"] = chance.randint(0, 5)
            case "timer":
                op["seconds"] = chance.choice([*SPANS, 0.3, 100.0])
                op["body"] = self._ops(agent, depth, nesting, is_raced=True)
            case "race" | "all":
                is_raced = is_raced or kind == "race"
                branches = range(chance.randint(2, 3))
                op["branches"] = [self._ops(agent, depth, nesting, 2, is_raced=is_raced) for _ in branches]
            case "guard":
                op["body"] = self._ops(agent, depth, nesting, 2, is_raced=is_raced)
                op["cleanup"] = [{"op": "call", "id": self._id("c"), "tool": "safe"}]
            case "hire":
                op["program"] = self.program("helper", depth + 1, chance.randint(1, 3))
            case "child":
                op |= self._child(agent, depth, nesting, is_raced=is_raced)
        if kind == "race":
            op["cancels"] = chance.random() < 0.6
            if op["cancels"] and chance.random() < 0.6:
                op["branches"].insert(chance.randrange(3), [self._undecided()])
        if kind in ("timer", "race") and chance.random() < 0.7:
            op["then"] = {"id": self._id("c"), **self._call()}
        return op

    def _undecided(self) -> dict[str, Any]:
        """Make an approval that stays undecided: another branch ends the race."""
        kind = self._chance.choice(["call", "ask"])
        return {"op": kind, "id": self._id(UNDECIDED), **({"tool": "risky"} if kind == "call" else {"choices": False})}

    def _call(self) -> dict[str, Any]:
        tools = [
            "safe",
            "safe",
            "idem",
            "risky",
            "risky",
            "risky_idem",
            "watched",
            "watched",
            "fails",
            "late",
            "cleans",
            "cleans",
        ]
        tool = self._chance.choice(tools)
        return {"tool": tool, "seconds": self._chance.choice(SPANS), "emitted": self._chance.random() < 0.2}

    def _child(self, agent: str, depth: int, nesting: int, *, is_raced: bool) -> dict[str, Any]:
        child = self._chance.choice(["worker", "worker", "restarter", "silent", "thrifty", "ending"])
        op: dict[str, Any] = {"agent": child, "how": self._chance.choice(["run", "run", "run", "cancel", "leave"])}
        op["program"] = self.program(child, depth + 1, self._chance.randint(1, 3))
        if self._chance.random() < 0.4:
            op["beside"] = self._ops(agent, depth, nesting, 2, is_raced=is_raced)
        return op


def operations(ops: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of a program, including those in its blocks and its children."""
    for op in ops:
        yield op
        if op.get("then"):
            yield {"op": "then", **op["then"]}
        for part in parts(op):
            yield from operations(part)


def may_be_cut_off(ops: list[Any], *, within: bool = False) -> Iterator[str]:
    """Return the ids of calls that the agent itself may cancel: by a race, a timer, or a step that fails next to
    them."""
    for op in ops:
        if within:
            yield op["id"]
        cuts = op["op"] == "timer" or len(parts(op)) > 1 or bool(op.get("cancels"))
        for part in parts(op):
            is_child = part is op.get("program")
            yield from may_be_cut_off(part, within=(within or cuts) and not is_child)
        if within and op.get("then"):
            yield op["then"]["id"]


def parts(op: dict[str, Any]) -> list[list[Any]]:
    """Return the lists of operations within one."""
    return [*op.get("branches", []), *(op[key] for key in ("body", "cleanup", "beside", "program") if key in op)]


def answer_to(approval: Approval) -> Decision | None:
    """Return a person's answer, the same for each person; None for no answer."""
    if approval.tool == BUDGET:
        dice = zlib.crc32(approval.id.encode()) % 10
        if dice == 0:
            return Deny(by="ana", reason="it is enough")
        more = {kind: limit + 3 for kind, limit in approval.arguments.items()}
        return Approve(by="ana", arguments=more if dice < 4 else None)
    name = approval.question if approval.kind == "question" else approval.arguments["x"]
    if str(name).startswith(UNDECIDED):
        return None
    dice = zlib.crc32(str(name).encode()) % 10
    if approval.kind == "question":
        return Answer(value="b" if approval.choices else f"to {name}", by="ana")
    if dice < 2:
        return Deny(by="ana", reason="no")
    if dice < 4:
        return Approve(by="ana", arguments={"x": name, "seconds": 0.0015})
    if dice < 6 and any(option.scope == SCOPES[dice] for option in approval.options):
        return Approve(by="ana", scope=SCOPES[dice])
    if dice < 7 and any(each.uses for each in approval.allowances):  # on Temporal none has
        return Approve(by="ana", uses=1)
    return Approve(by="ana")


def changes_first(approval: Approval) -> str | None:
    """Return the call whose state a person changes before they approve it; None if they change nothing."""
    name = str(approval.arguments["x"]) if approval.tool == "watched" else UNDECIDED
    return name if not name.startswith(UNDECIDED) and zlib.crc32(name.encode()) % 10 in (3, 5, 7, 8) else None


def is_denied(name: str) -> bool:
    return zlib.crc32(name.encode()) % 10 < 2
