"""Commands ask for the fields of a form at a terminal, and say what to do without one."""

import subprocess
import sys
from pathlib import Path

import anyio
import preloaded
from form_agents import traveller
from watching import next_of

from supervisor import open_supervisor


def begin(store: Path) -> None:
    """Leave a session that waits for an answer, with no process that runs it."""

    async def main() -> None:
        async with open_supervisor(store) as supervisor:
            await next_of((await supervisor.start(traveller, session="journey")).watch_approvals())

    anyio.run(main)


def pending(store: Path) -> tuple[str, dict]:
    """Run the session until it waits again; return what it asks, with the arguments."""

    async def main():
        async with open_supervisor(store) as supervisor:
            found = await next_of((await supervisor.resume("journey")).watch_approvals())
            return found.id, found.arguments

    return anyio.run(main)


def end(store: Path) -> str:
    async def main() -> str:
        async with open_supervisor(store) as supervisor:
            return await (await supervisor.resume("journey")).result()

    return anyio.run(main)


def test_answer_and_approve_ask_field_by_field(supervisor_on_terminal, tmp_path):
    """Each field with what it takes and its text; what does not fit is asked again; all of it is shown at the end."""
    store = tmp_path / "state.db"
    begin(store)
    asked, _ = pending(store)
    program = supervisor_on_terminal("answer", asked)
    for prompt, line in [
        ("kind (one of bus, train): ", "train"),
        ("another? yes or no) [no]: ", "yes"),
        ("stops[1].city (text, at least 2 characters): ", "R"),
        ("stops[1].city", "Rome"),
        ("stops[1].nights (whole number, 1 to 30, optional: in a row) [1]: ", "3"),
        ("or remove the last) [no]: ", ""),
        ("note (text, optional): ", ""),
    ]:
        program.see(prompt)
        program.press(f"{line}\n")
    program.see('"Rome"')
    assert program.end()[0] == 0

    approval, arguments = pending(store)
    assert arguments["journey"]["stops"] == [{"city": "Rome", "nights": 3}]
    program = supervisor_on_terminal("approve", approval, "--form")
    for prompt, line in [("kind", ""), ("city", "Oslo"), ("nights", ""), ("another", ""), ("note", ""), ("seats", "2")]:
        program.see(prompt)
        program.press(f"{line}\n")
    assert program.end()[0] == 0
    assert end(store) == "2 to Oslo"


def test_a_command_without_a_terminal_says_what_to_give(tmp_path):
    """A script never waits for a person; nothing is decided."""
    store = tmp_path / "state.db"
    begin(store)
    asked, _ = pending(store)
    command = [sys.executable, "-m", "supervisor", "answer", asked, "--store", str(store)]
    refused = preloaded.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no terminal" in refused.stderr
    assert pending(store)[0] == asked
