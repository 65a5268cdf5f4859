"""Records what waits on disk, for the tests of later code: `python -m tests.crossing.record [NAME] [FOLDER]`.

NAME is a crossing, a folder of `recorded`; without it, the newest one. Two runs write the same bytes, but for what
`record_once` says. A crossing is recorded by the code that people have, and never again: see
CONTRIBUTING.md, "The net".
"""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("crossing", "", "channels/chat", "agents")]

import crossing_frameworks  # noqa: E402 # from the folder above
import crossing_langgraph  # noqa: E402 # the same
import recorded_acp  # noqa: E402 # the same
import recorded_calls  # noqa: E402 # the same
import recorded_chats  # noqa: E402 # the same
import recorded_claude  # noqa: E402 # the same
import recorded_frameworks  # noqa: E402 # the same
import recorded_jobs  # noqa: E402 # the same
import recorded_temporal  # noqa: E402 # the same
from chat_platforms import PLATFORMS  # noqa: E402 # the same
from recording import fixed, pack, pack_document, pack_file  # noqa: E402 # the same

from supervisor.testing import virtual_asyncio  # noqa: E402 # the same


def record(folder: Path) -> None:
    os.chdir("/")  # a session records its folder
    backend, options = virtual_asyncio()
    with fixed():
        pack(anyio.run(recorded_calls.record, backend=backend, backend_options=options), folder / "calls.db.gz")
    scenes = {
        "jobs": recorded_jobs.record,
        "frameworks": partial(recorded_frameworks.record, crossing_frameworks.AGENTS),
        "claude": recorded_claude.record,
    }
    for name, scene in scenes.items():
        with fixed():
            store, replaced = anyio.run(scene)
            pack(store, folder / f"{name}.db.gz", replaced)
    with fixed(), tempfile.TemporaryDirectory() as home:
        store, sessions, replaced = anyio.run(recorded_acp.record, Path(home))
        pack(store, folder / "acp.db.gz", replaced)
        pack_document(sessions, folder / "acp.json.gz", replaced)
    for name, platform in PLATFORMS.items():
        with fixed():
            store, document, replaced = anyio.run(recorded_chats.record, platform())
            pack(store, folder / f"{name}.db.gz", replaced)
            pack_document(document, folder / f"{name}.json.gz", replaced)


def record_once(folder: Path) -> None:
    """Record what is not the same in two runs, unless it is there.

    LangGraph gives its checkpoints random ids and the time, and a request of its graph names them. On Temporal the ids
    of approvals follow from those of workflow runs, which the server draws: other ids would be no history of that run.
    """
    if not (folder / "langgraph.db.gz").exists():
        with fixed(), tempfile.TemporaryDirectory() as made:
            crossing_langgraph.threads = Path(made, "threads.db")
            store, _ = anyio.run(recorded_frameworks.record, crossing_langgraph.AGENTS)
            pack(store, folder / "langgraph.db.gz")
            pack_file(crossing_langgraph.threads, folder / "langgraph-threads.db.gz")
    if not (folder / "temporal.json.gz").exists():
        ours = {f"{os.getpid()}@{os.uname().nodename}": "1@host"}
        pack_document(anyio.run(recorded_temporal.record), folder / "temporal.json.gz", ours)


def main() -> None:
    recorded = HERE / "recorded"
    name = sys.argv[1] if sys.argv[1:] else max(each.name for each in recorded.iterdir())
    folder = (Path(sys.argv[2]) if sys.argv[2:] else recorded).resolve() / name
    folder.mkdir(parents=True, exist_ok=True)
    record(folder)
    record_once(folder)
    for file in sorted(folder.iterdir()):
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
