"""The example of a streamed answer: a person sees it grow, and the journal has it once."""

from pathlib import Path

import pytest

from supervisor import MemoryStore, open_supervisor
from supervisor.core import events as e
from supervisor.system.loading import load_agent

EXAMPLE = Path(__file__).parents[2] / "examples" / "streaming.py"

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def test_the_answer_grows_and_is_said_once():
    narrator = load_agent(f"{EXAMPLE}:narrator")
    store, seen = MemoryStore(), []
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(narrator, "the tide", session="s")
        async with supervisor.watch_text("s") as watch:
            while await run.find_outcome() is None:
                seen.append((await anext(watch)).text)
        whole = await run.result()
    growing = [text for text in seen if text]
    assert growing == sorted(growing, key=len)
    assert len(growing) > 3
    assert all(whole.startswith(text.strip()) for text in growing)
    assert [row.event.text for row in store.journal("s") if isinstance(row.event, e.MessageSent)] == [whole]
