"""Records what waits on disk, for the tests of later code: `python -m tests.crossing.record [NAME] [FOLDER]`.

NAME is a crossing, a folder of `recorded`; without it, the newest one. Two runs write the same bytes. A crossing is
recorded by the code that people have, and never again: see CONTRIBUTING.md, "The net".
"""

import os
import sys
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("crossing", "", "channels/chat", "agents")]

import recorded_calls  # noqa: E402 # from the folder above
import recorded_chats  # noqa: E402 # the same
import recorded_jobs  # noqa: E402 # the same
from chat_platforms import PLATFORMS  # noqa: E402 # the same
from recording import fixed, pack, pack_document  # noqa: E402 # the same

from supervisor.testing import virtual_asyncio  # noqa: E402 # the same


def record(folder: Path) -> None:
    os.chdir("/")  # a session records its folder
    backend, options = virtual_asyncio()
    with fixed():
        pack(anyio.run(recorded_calls.record, backend=backend, backend_options=options), folder / "calls.db.gz")
    with fixed():
        store, replaced = anyio.run(recorded_jobs.record)
        pack(store, folder / "jobs.db.gz", replaced)
    for name, platform in PLATFORMS.items():
        with fixed():
            store, document, replaced = anyio.run(recorded_chats.record, platform())
            pack(store, folder / f"{name}.db.gz", replaced)
            pack_document(document, folder / f"{name}.json.gz", replaced)


def main() -> None:
    recorded = HERE / "recorded"
    name = sys.argv[1] if sys.argv[1:] else max(each.name for each in recorded.iterdir())
    folder = (Path(sys.argv[2]) if sys.argv[2:] else recorded).resolve() / name
    folder.mkdir(parents=True, exist_ok=True)
    record(folder)
    for file in sorted(folder.iterdir()):
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
