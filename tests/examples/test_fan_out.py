"""The example of a fan-out: each sub-agent is reported, however it ends."""

import sys
from pathlib import Path

import pytest

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.system.loading import load_agent

pytestmark = pytest.mark.anyio
survey = load_agent(f"{Path(__file__).parents[2] / 'examples/fan_out.py'}:survey")


@agent
async def measured(ctx: Context, folder: str) -> str:
    """In the place of `measure`: it takes as long as its folder is called."""
    if folder == "broken":
        raise ValueError("it is broken")
    await ctx.sleep(7200 if folder == "huge" else 1)
    return "7 files"


async def test_a_folder_that_is_missing_fails_alone(tmp_path):
    for number in range(3):
        (tmp_path / f"file{number}").touch()
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(survey, [str(tmp_path), str(tmp_path / "gone")])
        here, gone = (await run.result()).values()
    assert (here, gone[:8], "gone" in gone) == ("3 files", "failed: ", True)


class TestOnVirtualTime:
    @pytest.fixture
    def anyio_backend(self, virtual_backend):
        return virtual_backend

    async def test_a_late_one_is_cancelled_and_the_others_are_kept(self, monkeypatch):
        monkeypatch.setattr(sys.modules[survey.__module__], "measure", measured)
        async with open_supervisor(MemoryStore()) as supervisor:
            run = await supervisor.start(survey, ["huge", "broken", "small"])
            found = await run.result()
            ended = await supervisor.find_sessions(agent="measured")
        assert found == {"huge": "too late", "broken": "failed: ValueError: it is broken", "small": "7 files"}
        assert sorted(view.outcome["kind"] for view in ended) == ["cancelled", "failed", "succeeded"]
