"""docs/how-to/write-a-channel.md, followed to the first press: its file, its table, a daemon's channels."""

import anyio
import pytest
from board_bench import TOKEN, BoardBench, FakeBoard, blocks, serving

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core.approvals.people import People
from supervisor.wiring.config import read_configuration
from supervisor.wiring.platforms import make_channels

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def test_the_guide_leads_to_the_first_press(tmp_path, monkeypatch):
    """The module is imported by the name that the table gives."""
    with serving(FakeBoard()) as board:
        (tmp_path / "board.py").write_text(blocks("python")[0])
        (tmp_path / "board.token").write_text(TOKEN)
        table = blocks("toml")[0].replace("https://board.example.org/api", board.url)
        (tmp_path / "supervisor.toml").write_text(table)
        monkeypatch.syspath_prepend(tmp_path)
        configuration = read_configuration(tmp_path / "supervisor.toml")
        people = People(configuration.persons(), configuration.reservations())
        (channel,) = make_channels(configuration, people, {}, None)
        bench = BoardBench(board)
        async with open_supervisor(MemoryStore(), channels=[channel], people=people) as supervisor:
            run = await supervisor.start(deployer, "production")
            with anyio.fail_after(30):
                while not bench.cards():
                    await anyio.sleep(0.01)
            (card,) = bench.cards()
            answer = await bench.press(channel, card, "approve.0", "u-17")
            assert (answer.status, b"approved by ana" in answer.body) == (200, True)
            assert await run.result() == "ok"
