"""The demonstration: a caretaker and its sub-agents look after a small real project, and ask before they change it.

    caretaker
        watcher     follows the build log; its parent cancels it when the survey is done
        surveyor    reads, by steps and commands that need no approval
        tester      asks to run the project's tests
        cleaner     asks to delete its temporary files
        releaser
            packer  asks to pack it up

No model is needed: the agents are ordinary functions, as all agents are. The project is real. It is in a scratch folder
that is the caretaker's input, so a resumed session finds it again. The commands are real, and their effects are visible
in that folder.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from supervisor.core.declarations.agent_spec import agent
from supervisor.core.declarations.tool_context import ProcessToolContext
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.events import RunStarted, SessionCreated
from supervisor.core.values import Outcome, Policy, ToolResult, result_of
from supervisor.seam.context import Context
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import Supervisor
from supervisor.tools.command import shell

SESSION: Final = "demo"
READERS: Final = ("wc", "grep", "tail", "tar")
"""Programs that `look` runs without an approval; `tar` only to list."""

_FILES: Final = {
    "README.md": "# Harbour\n\nTides and berths of a small harbour.\n",
    "build.log": "10:00 build begins\n10:01 tides compiled\n10:02 berths compiled\n",
    "harbour/__init__.py": "",
    "harbour/tides.py": (
        '"""When the water is high."""\n\n\n'
        "def next_high_water(last: float) -> float:\n"
        '    """Return the hour of the next high water after `last`."""\n'
        "    return (last + 12.42) % 24\n"
    ),
    "harbour/berths.py": (
        '"""Who lies where."""\n\n\n'
        "def free_berths(taken: set[int], total: int = 8) -> list[int]:\n"
        "    # TODO: berth 8 falls dry at low water\n"
        "    return [berth for berth in range(1, total + 1) if berth not in taken]\n"
    ),
    "tests/__init__.py": "",
    "tests/test_harbour.py": (
        "import unittest\n"
        "from pathlib import Path\n\n"
        "from harbour.berths import free_berths\n"
        "from harbour.tides import next_high_water\n\n\n"
        "class HarbourTest(unittest.TestCase):\n"
        "    @classmethod\n"
        "    def setUpClass(cls) -> None:\n"
        '        with Path("test-runs.txt").open("a") as runs:\n'
        '            runs.write("ran\\n")\n\n'
        "    def test_high_water_comes_again(self) -> None:\n"
        "        self.assertAlmostEqual(next_high_water(20.0), 8.42)\n\n"
        "    def test_taken_berths_are_not_free(self) -> None:\n"
        "        self.assertEqual(free_berths({1, 2}, total=4), [3, 4])\n"
    ),
    "cache/tides.tmp": "12.42\n",
    "cache/berths.tmp": "8\n",
    "cache/old/2025.tmp": "old\n",
}


def allow_reading(command: list[str], cwd: str, timeout: float = 30.0) -> Policy:
    """Return the policy of `look`: allow a program that only reads, and ask about every other one."""
    only_reads = command[0] in READERS and (command[0] != "tar" or "-tzf" in command)
    return "allow" if only_reads else "ask"


@tool(policy=allow_reading, timeout=None)
async def look(call: ProcessToolContext, command: list[str], cwd: str, timeout: float = 30.0) -> ToolResult[Any]:
    """Run a command that only reads, without an approval."""
    result: ToolResult[Any] = await shell.fn(call, command=command, cwd=cwd, timeout=timeout)
    return result


async def count_words(file: str) -> int:
    """Read a file, as an agent's own step."""
    return len((await anyio.Path(file).read_text()).split())


async def find_python() -> str:
    """Return the path of Python. This is a step, since the path goes into a command that must never change."""
    return sys.executable


@agent
async def surveyor(ctx: Context, project: str) -> str:
    words = await ctx.step(count_words, file=f"{project}/README.md")
    lines = await ctx.call(look, command=["wc", "-l", "harbour/tides.py", "harbour/berths.py"], cwd=project)
    todos = await ctx.call(look, command=["grep", "-rn", "TODO", "harbour"], cwd=project)
    return f"{words} words of README, {lines.content.split()[-2]} lines of code, {len(todos.content.splitlines())} TODO"


@agent
async def watcher(ctx: Context, project: str) -> str:
    result = await ctx.call(look, command=["tail", "-f", "build.log"], cwd=project, timeout=3600)
    return result.content


@agent
async def tester(ctx: Context, project: str) -> str:
    python = await ctx.step(find_python)
    result = await ctx.call(shell, command=[python, "-B", "-m", "unittest", "-v"], cwd=project)
    return _tell(result, lambda text: f"tests: {text.split()[-1]}")


@agent
async def cleaner(ctx: Context, project: str) -> str:
    result = await ctx.call(shell, command="find . -name '*.tmp' -print -delete", cwd=project)
    return _tell(result, lambda text: f"deleted {', '.join(sorted(text.split()))}")


@agent
async def packer(ctx: Context, project: str) -> str:
    result = await ctx.call(shell, command=["tar", "-czf", "release.tar.gz", "harbour"], cwd=project)
    return _tell(result, lambda text: "packed release.tar.gz")


@agent
async def releaser(ctx: Context, project: str) -> str:
    packed = await ctx.run(packer, project)
    listed = await ctx.call(look, command=["tar", "-tzf", "release.tar.gz"], cwd=project)
    return packed if listed.is_error else f"{packed}, {len(listed.content.splitlines())} entries"


@agent
async def caretaker(ctx: Context, project: str) -> dict[str, str]:
    following = await ctx.spawn(watcher, project)
    surveying = await ctx.spawn(surveyor, project)
    asking = [(spec.name, await ctx.spawn(spec, project)) for spec in (tester, cleaner, releaser)]
    report = {"project": project, "surveyor": _end(await surveying.outcome())}
    await following.cancel("the survey is done")
    report["watcher"] = _end(await following.outcome())
    for name, child in asking:
        report[name] = _end(await child.outcome())
    return report


def _tell(result: ToolResult[Any], ok: Any) -> str:
    """Return the result of a call in words. A denial is a result like any other."""
    return ok(result.content) if result.kind == "ok" else f"{result.kind}: {result.content.strip()}"


def _end(outcome: Outcome[str]) -> str:
    return result_of(outcome) if outcome.kind == "succeeded" else outcome.cause or outcome.kind


def make_project(folder: Path, *, only_if_gone: bool = False) -> None:
    """Write the project's files. `only_if_gone`: only if its folder does not exist."""
    if only_if_gone and folder.exists():
        return
    for name, text in _FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


async def start(supervisor: Supervisor) -> tuple[Run[Any], Path]:
    """Resume the unfinished demonstration of a store, or start a new one. Return its run and its folder."""
    known = {view.id: view for view in await supervisor.find_sessions(limit=None) if view.parent is None}
    reference = f"{caretaker.__module__}:{caretaker.__qualname__}"
    for view in known.values():
        if view.outcome is None and (given := await _input(supervisor, view.id, reference)) is not None:
            folder = Path(msgspec.json.decode(given, type=str))
            make_project(folder, only_if_gone=True)  # a reboot empties the folder for temporary files
            return await supervisor.resume(view.id), folder
    folder = Path(tempfile.mkdtemp(prefix="supervisor-demo-"))
    make_project(folder)
    names = (SESSION if number == 1 else f"{SESSION}-{number}" for number in range(1, len(known) + 2))
    session = next(name for name in names if name not in known)
    return await supervisor.start(caretaker, str(folder), session=session), folder


async def _input(supervisor: Supervisor, session: str, reference: str) -> msgspec.Raw | None:
    """Return the input with which a session began; None if it is a session of another agent."""
    match [row.event for row in await supervisor.find_entries(session, limit=2)]:
        case [SessionCreated(agent=agent), RunStarted(input=given)] if agent == reference:
            return given
    return None
