"""A18: the example's two previews read only, and what they show is what the person decides.

It also holds docs/how-to/previews.md, whose program is a part of this one.
"""

import runpy
import sqlite3
from contextlib import closing

import anyio
import pytest
from processes import EXAMPLES

from supervisor import Approve, Context, InvalidInput, MemoryStore, PreviewContext, agent, open_supervisor

PAGE = EXAMPLES.parent / "docs/how-to/previews.md"
MADE = "CREATE TABLE person (name TEXT, left_in INTEGER); INSERT INTO person VALUES ('ana', NULL), ('ben', 2019)"


@pytest.fixture
def example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("people.db")) as database:
        database.executescript(MADE)
    return runpy.run_path(str(EXAMPLES / "previews.py"))


def names():
    with closing(sqlite3.connect("people.db")) as database:
        return [name for (name,) in database.execute("SELECT name FROM person")]


@pytest.mark.parametrize(("late", "kind", "left"), [("cleo", "denied", ["ana", "ben", "cleo"]), (None, "ok", ["ana"])])
def test_a_person_sees_the_rows_and_other_rows_are_not_deleted(example, late, kind, left):
    """A row that comes after the person has looked denies the call."""

    @agent
    async def deletes(ctx: Context) -> str:
        return (await ctx.call(example["delete_people"], "left_in < 2022")).kind

    async def decide():
        async with open_supervisor(MemoryStore()) as supervisor:
            run = await supervisor.start(deletes)
            with anyio.fail_after(30):
                while not (asked := await supervisor.find_approvals()) or not asked[0].evidence:
                    await anyio.sleep(0.01)
            assert asked[0].evidence[0].text == "name | left_in\n-----+--------\nben  | 2019"
            if late is not None:
                with closing(sqlite3.connect("people.db")) as database, database:
                    database.execute("INSERT INTO person VALUES (?, 2020)", [late])
            await supervisor.decide(asked[0].id, Approve(by="ana"))
            return await run.result()

    assert anyio.run(decide) == kind
    assert names() == left


def test_the_preview_of_a_statement_cannot_write(example, tmp_path):
    context = PreviewContext(session="s", requester="rita", cwd=str(tmp_path))
    with pytest.raises(sqlite3.Error):
        example["rows_to_delete"](context, "1; DELETE FROM person")
    assert names() == ["ana", "ben"]


def test_a_push_shows_what_the_remote_lacks(example, tmp_path):
    """Its state is the commit that would be pushed, and the one that the remote had."""
    git, folder = example["git"], str(tmp_path / "work")
    git(".", "init", "-q", "--bare", "remote.git")
    git(".", "init", "-q", "-b", "main", "work")
    git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    author = ("-c", "user.name=ana", "-c", "user.email=ana@example.org")
    git(folder, *author, "commit", "-q", "--allow-empty", "-m", "one")
    context = PreviewContext(session="s", requester="rita", cwd=folder)
    first = example["what_is_pushed"](context, "main")
    assert first.text.endswith(" one")
    git(folder, "push", "-q", "origin", "main")
    assert example["what_is_pushed"](context, "main").text == "nothing"
    git(folder, *author, "commit", "-q", "--allow-empty", "-m", "two")
    second = example["what_is_pushed"](context, "main")
    assert (second.text.endswith(" two"), second.state == first.state) == (True, False)


def test_the_program_of_the_guide_declares_what_it_says():
    """Its blocks are whole: they run as they are."""
    (text,) = [part.split("```")[0] for part in PAGE.read_text().split("```python\n")[1:]]
    said = {}
    exec(text, said)  # the page's own words
    context = PreviewContext(session="s", requester="rita", cwd="/")
    assert said["delete_rows"].preview(context, "people", "1=1").table[0] == ["name"]
    assert InvalidInput.__name__ not in said
