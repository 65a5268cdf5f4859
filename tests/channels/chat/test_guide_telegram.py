"""A person follows docs/how-to/telegram.md to the first press: the guide's own table, and the command as shown."""

import os
import re
import sys
import time
from pathlib import Path

import preloaded
import pytest
from fake_telegram import TOKEN, FakeTelegram, codes, serving

GUIDE = (Path(__file__).parents[3] / "docs/how-to/telegram.md").read_text()
TABLE = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]
ME = 123456789
AGENTS = """
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"

@agent
async def deployer(ctx: Context, text: str) -> str:
    return (await ctx.call(deploy, text)).content
"""


def until(found, log):
    end = time.monotonic() + 60
    while not (it := found()):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    return it


@pytest.mark.slow
def test_the_guide_leads_to_the_first_press(tmp_path):
    """The bot tells people their id; a message to it starts the agent; its card is pressed, and the agent answers."""
    (tmp_path / "agents.py").write_text(AGENTS)
    log = tmp_path / "log"
    with serving(FakeTelegram()) as fake:
        table = TABLE.replace("[channels.telegram]", f'[channels.telegram]\nbase_url = "{fake.url}"')
        (tmp_path / "supervisor.toml").write_text('store = "state.db"\n[server]\nport = 0\n' + table)
        command = [sys.executable, "-m", "supervisor", "serve", "--config", "supervisor.toml"]
        with log.open("wb") as out:
            daemon = preloaded.Popen(
                command, cwd=tmp_path, env=os.environ | {"TELEGRAM_BOT_TOKEN": TOKEN}, stdout=out, stderr=out
            )
        try:
            fake.say("/id", ME, chat=ME)
            assert str(ME) in until(lambda: fake.of_bot(ME), log)[0]["text"]
            fake.say("web-1", ME, chat=ME)
            card = until(lambda: next((card for card in fake.cards(ME) if codes(card)), None), log)
            fake.press(card, "approve.0", ME)
            until(lambda: [m for m in fake.of_bot(ME) if m["text"] == "deployed web-1"], log)
            until(lambda: not codes(card), log)
        finally:
            daemon.terminate()
            daemon.wait(60)
    assert TOKEN.partition(":")[2] not in log.read_text()
