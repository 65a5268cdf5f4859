"""A person follows docs/how-to/slack.md and discord.md to the first press: their own tables, and a daemon that serves
them at the host that the person named. Slack's app is as docs/how-to/slack-manifest.yaml says."""

import os
import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import fake_discord
import fake_slack
import httpx
import preloaded
import pytest
from test_mentions import parts_of

GUIDES = Path(__file__).parents[3] / "docs/how-to"
SLACK, DISCORD, MANIFEST = ((GUIDES / name).read_text() for name in ("slack.md", "discord.md", "slack-manifest.yaml"))
HOST = "approvals.example.org"
AGENTS = """
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"

@agent
async def chat(ctx: Context, text: str) -> None:
    await ctx.send((await ctx.call(deploy, text)).content)
"""
FILE = """
store = "state.db"
{times}
[server]
port = 0
public_url = "https://{host}"
[agents.chat]
import = "agents.py:chat"
[people.ana]
roles = ["operator"]
identities = {{ {platform} = "{ana}" }}
[people.cleo]
identities = {{ {platform} = "{cleo}" }}
{table}
"""
TIMES = 'passivate_after = 0\nescalate_after = 0.05\nescalate_to = ["cleo"]'
COMMAND = [sys.executable, "-m", "supervisor"]


def table_of(guide, **local):
    """Return the table of a guide, with other values for some of its keys, and more keys."""
    table = re.search(r"```toml\n(.*?)```", guide, re.DOTALL)[1]
    for key, value in local.items():
        table = re.sub(rf"^{key} = .*\n", "", table, flags=re.MULTILINE) + f'{key} = "{value}"\n'
    return table


def until(found, log):
    end = time.monotonic() + 60
    while not (it := found()):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    return it


@contextmanager
def daemon(folder, **environment):
    """Serve the configuration of a folder. Gives a function that brings it what a platform sends, and the log."""
    (folder / "agents.py").write_text(AGENTS)
    log = folder / "log"
    with log.open("wb") as out:
        serve = [*COMMAND, "serve", "--config", "supervisor.toml"]
        process = preloaded.Popen(serve, cwd=folder, env=os.environ | environment, stdout=out, stderr=out)
    try:
        port = until(lambda: re.search(r"http://\S+:(\d+)", log.read_text()), log)[1]

        def bring(path, request, host=HOST):
            headers, body = request
            where = f"http://127.0.0.1:{port}{path}"
            return httpx.post(where, headers={**headers, "host": host}, content=body, timeout=60)

        yield bring, log
    finally:
        process.terminate()
        process.wait(60)


def mentioned(message):
    return [part["user_id"] for part in parts_of(message["blocks"]) if part.get("type") == "user"]


@pytest.mark.slow
def test_the_guide_of_slack_leads_to_the_first_press(tmp_path):
    """A mention starts the agent, and its card rings; as the file says, it is escalated to one person more (A10). The
    press decides, and the answer is in the thread."""
    place, ana, cleo, thread = "C012AB3CD", "U012AB3CD", "U034EF5GH", f"{time.time():.6f}"
    (path,) = {*re.findall(rf"url: https://{HOST}(/\S+)", MANIFEST)}
    with fake_slack.serving(fake_slack.FakeSlack()) as slack:
        slack.scopes = ",".join(re.findall(r"^      - ([\w:]+) #", MANIFEST, re.MULTILINE))
        table = table_of(SLACK, base_url=slack.url)
        file = FILE.format(times=TIMES, host=HOST, platform="slack", ana=ana, cleo=cleo, table=table)
        (tmp_path / "supervisor.toml").write_text(file)
        secrets = {"SLACK_BOT_TOKEN": fake_slack.TOKEN, "SLACK_SIGNING_SECRET": fake_slack.SECRET}
        with daemon(tmp_path, **secrets) as (bring, log):
            until(lambda: "@supervisor in #ops" in log.read_text(), log)
            said = slack.say("<@UBOT> web-1", ana, thread, channel=place, mention=True)
            assert bring(path, said, host="another.example").status_code == 421
            assert bring(path, said).status_code == 200
            card = until(lambda: slack.messages.get(place), log)[0]
            until(lambda: mentioned(card) == [cleo, ana], log)
            assert bring(path, slack.press(card, "approve.0", ana, place)).status_code == 200
            until(lambda: "deployed web-1" in str([each["blocks"] for each in slack.messages[place][1:]]), log)
            assert {each["thread_ts"] for each in slack.messages[place]} == {thread}
            until(lambda: not any(block["type"] == "actions" for block in card["blocks"]), log)
    assert fake_slack.SECRET not in log.read_text()


@pytest.mark.slow
def test_the_guide_of_discord_leads_to_the_first_press(tmp_path):
    """Its commands are made known, Discord tries the address, /start opens a thread, and a press in it decides."""
    ana, path = "803512345678901234", re.search(r"https://HOST(/[\w/]+)", DISCORD)[1]
    with fake_discord.serving(fake_discord.FakeDiscord()) as discord:
        ids = {"application": fake_discord.APPLICATION, "public_key": fake_discord.PUBLIC_KEY}
        table = table_of(DISCORD, **ids, base_url=discord.url)
        file = FILE.format(times="", host=HOST, platform="discord", ana=ana, cleo="1", table=table)
        (tmp_path / "supervisor.toml").write_text(file)
        secrets = {"DISCORD_BOT_TOKEN": fake_discord.TOKEN}
        with daemon(tmp_path, **secrets) as (bring, log):
            tried = bring(path, fake_discord.signed({"type": 1, "application_id": fake_discord.APPLICATION}))
            assert (tried.status_code, tried.json()) == (200, {"type": 1})
            register = [*COMMAND, "discord", "register"]
            done = preloaded.run(register, cwd=tmp_path, env=os.environ | secrets, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            shown = {*re.findall(r"`/(\w+)[^`]*`", re.search(r"\| command.*?\n\n", DISCORD, re.DOTALL)[0])}
            assert {each["name"] for each in discord.commands} == shown
            assert bring(path, discord.command("start", ana, text="web-1")).status_code == 200
            card = until(lambda: next(filter(fake_discord.buttons, [*discord.messages.values()]), None), log)
            assert card["channel_id"] in discord.threads
            assert f"<@{ana}>" in card["content"]
            assert bring(path, discord.press(card, "approve.0", ana)).status_code == 200
            until(lambda: "deployed web-1" in str([*discord.messages.values()][2:]), log)
            until(lambda: not fake_discord.buttons(card), log)
    assert fake_discord.TOKEN not in log.read_text()
