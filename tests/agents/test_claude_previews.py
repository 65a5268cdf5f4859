"""A18: a person who is asked about an edit of Claude Code sees what it changes in the file as it is."""

import anyio
import pytest

from supervisor import Approve, MemoryStore, PreviewContext, open_supervisor
from supervisor.agents.claude.permissions import Client, Denied, Permissions
from supervisor.agents.claude.previews import MOST_BYTES, change_of

FILE = "one\ntwo\ntwo\n"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "a.py").write_text(FILE)
    return tmp_path / "a.py"


def seen(file, **arguments):
    return change_of(
        PreviewContext(session="s", requester="r", cwd=str(file.parent)), {"file_path": "a.py", **arguments}
    )


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"content": "one\n"}, ["-two", "-two"]),
        ({"old_string": "one", "new_string": "1"}, ["-one", "+1"]),
        ({"old_string": "two", "new_string": "2", "replace_all": True}, ["-two", "-two", "+2", "+2"]),
        ({"edits": [{"old_string": "one", "new_string": "1"}, {"old_string": "1", "new_string": "x"}]}, ["-one", "+x"]),
    ],
)
def test_an_edit_is_shown_as_a_diff_of_the_file(file, arguments, changed):
    """Of Write, Edit and MultiEdit; its state is the whole file's."""
    found = seen(file, **arguments)
    assert [line for line in found.diff.split("\n")[2:] if line[:1] in ("-", "+")] == changed
    file.write_text(f"{FILE}three\n")
    assert seen(file, **arguments).state != found.state


def test_an_edit_that_cannot_be_shown_as_a_diff_says_why(file):
    """A new file is one; what Claude Code refuses is said; no other thing than a file is read."""
    assert seen(file, old_string="four", new_string="").text == "the text to replace is not in a.py"
    assert seen(file, old_string="two", new_string="").text == "the text to replace is 2 times in a.py"
    assert seen(file, content=FILE).text == "nothing changes in a.py"
    assert seen(file, file_path="new.py", content="x").diff.startswith("a new file\n")
    assert seen(file, file_path=".", content="x").text == ". is no file"
    file.write_bytes(b"\xff\xfe")
    assert seen(file, content="x").text == "a.py is no text"
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    assert "too many" in seen(file, content="x").text


@pytest.mark.anyio
async def test_an_approved_edit_of_a_file_that_has_changed_is_denied(file):
    """Claude Code is told to call again, and changes nothing."""
    async with open_supervisor(MemoryStore()) as supervisor:
        permissions, answers = Permissions(), []
        run = await supervisor.start(permissions.agent, session="s")

        async def ask():
            answers.append(await permissions.ask("Write", {"file_path": str(file), "content": "new"}, Client()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(permissions.follow, run)
            tasks.start_soon(ask)
            with anyio.fail_after(30):
                while not (found := [*await supervisor.find_approvals()]) or not found[0].evidence:
                    await anyio.sleep(0.02)
                assert "-one" in found[0].evidence[0].text
                file.write_text("changed meanwhile")
                await supervisor.decide(found[0].id, Approve(by="ana"))
                while not answers:
                    await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
        await run.cancel()
    assert answers == [Denied("changed since ana approved; call it again")]
