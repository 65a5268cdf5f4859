"""Two previews: a person sees the rows that a statement would delete, and the commits that a push would publish.

python previews.py                       # asks you whether to delete two rows of people.db; the card shows them
"""

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import anyio

from supervisor import Context, Preview, PreviewContext, agent, open_supervisor, tool
from supervisor.channels import Terminal

DATABASE = "people.db"


def rows_to_delete(ctx: PreviewContext, where: str) -> Preview:
    """Show the rows, over a connection that cannot write. The rows are the state, too."""
    address = (Path(ctx.cwd) / DATABASE).as_uri() + "?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as database:
        found = database.execute(f"SELECT * FROM person WHERE {where}")  # noqa: S608 # the words that the tool runs, read only
        columns = [column[0] for column in found.description]
        return Preview(table=[columns, *found.fetchall()])


@tool(preview=rows_to_delete)
def delete_people(where: str) -> int:
    with closing(sqlite3.connect(DATABASE)) as database, database:
        return database.execute(f"DELETE FROM person WHERE {where}").rowcount  # noqa: S608 # a person has read them


def git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=4)  # noqa: S603 # no shell
    return done.stdout.strip()


def what_is_pushed(ctx: PreviewContext, branch: str) -> Preview:
    """Show the commits that the remote lacks, as far as the last fetch knows. Their ids are the state."""
    ours, theirs = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
    known = git(ctx.cwd, "for-each-ref", "--format=%(objectname)", theirs)
    head = git(ctx.cwd, "rev-parse", "--verify", ours)
    commits = git(ctx.cwd, "log", "--oneline", "--stat", "--no-color", head, *([f"^{known}"] if known else []), "--")
    return Preview(text=commits or "nothing", state=[head, known])


@tool(preview=what_is_pushed)
def push(branch: str) -> str:
    return git(".", "push", "origin", f"refs/heads/{branch}")


@agent
async def janitor(ctx: Context, where: str) -> str:
    result = await ctx.call(delete_people, where)
    return result.content


async def main() -> None:
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS person (name TEXT PRIMARY KEY, left_in INTEGER)")
        rows = [("ana", None), ("ben", 2019), ("cleo", 2021)]
        database.executemany("INSERT OR IGNORE INTO person VALUES (?, ?)", rows)
    async with open_supervisor("previews.db", channels=[Terminal()]) as supervisor:
        run = await supervisor.start(janitor, "left_in < 2022", session="tidy")
        print(await run.result())


if __name__ == "__main__":
    anyio.run(main)
