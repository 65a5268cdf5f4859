"""What Discord is sent, held against its own description and against simcord, which keeps messages as Discord does.

Both are optional: `npm install --prefix .peers --ignore-scripts discord-api-spec@10.0.266135 zod@4` brings schemas made
from Discord's OpenAPI description; SUPERVISOR_DISCORD_OPENAPI names a copy of that description itself.
"""

import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx
import jsonschema
import pytest
from fake_discord import PUBLIC_KEY, signed
from hypothesis import given, settings
from msgspec.structs import replace
from platform_scenes import deployer, opened
from test_platform_cards import NOW, approvals, asking

from supervisor import Context, Option, agent
from supervisor.channels.chat.presses import FORMS, buttons_of
from supervisor.channels.discord import Discord, components, interactions
from supervisor.channels.discord.commands import COMMANDS
from supervisor.channels.sdk import CardGone
from supervisor.core.approvals.people import People, Person

PEERS = Path(__file__).parents[3] / ".peers" / "node_modules"
OPENAPI = os.environ.get("SUPERVISOR_DISCORD_OPENAPI", "")
CHECK = """
import * as schemas from 'discord-api-spec/zod'
const sent = JSON.parse(require('fs').readFileSync(0, 'utf8'))
for (const [schema, body] of sent) {
  const result = schemas[schema + 'Schema'].safeParse(body)
  if (!result.success) {
    console.log(schema, JSON.stringify(result.error.issues), JSON.stringify(body))
    process.exit(1)
  }
}
"""


def sent(approval):
    """Iterate over (schema, body) of what Discord gets for an approval, in its whole life."""
    yield "MessageCreateRequest", components.card_message(approval, NOW) | {"nonce": "n", "enforce_nonce": True}
    yield "MessageEditRequestPartial", components.retired_message(approval)
    yield "CreateMessageInteractionCallbackRequest", interactions.told("done")
    yield "CreateMessageInteractionCallbackRequest", interactions.DEFERRED_REPLY
    for press in buttons_of(approval):
        if press.code in FORMS and press.code != "edit":
            yield "ModalInteractionCallbackRequest", interactions.modal(components.form_modal(press.code, approval))
    for command in COMMANDS:
        yield "ApplicationCommandCreateRequest", command


@pytest.mark.skipif(not OPENAPI, reason="SUPERVISOR_DISCORD_OPENAPI names no copy of Discord's OpenAPI description")
@given(approvals())
def test_our_requests_fit_discords_own_description(approval):
    """Every message, form, answer and command, for any approval."""
    document = json.loads(Path(OPENAPI).read_text())
    for schema, body in sent(approval):
        whole = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(json.loads(json.dumps(body)))


@pytest.mark.skipif(
    shutil.which("node") is None or not (PEERS / "discord-api-spec").exists(),
    reason="discord-api-spec is not installed",
)
def test_our_requests_fit_the_schemas_made_from_discords_description():
    """The same, in one process of node."""
    bodies = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(approvals())
    def collect(approval):
        bodies.extend(sent(approval))

    collect()
    several = asking(tool="t", arguments={"to": "Rome", "n": 1, "pay": True}, options=(Option("once"),))
    bodies.extend(
        ("ModalInteractionCallbackRequest", interactions.modal(components.form_modal("edit", each, link)))
        for each in (several, replace(several, id="a", arguments={"names": ["x"]}))
        for link in (None, "https://inbox.example")
    )
    command = ["node", "--input-type=module", "-e", CHECK.replace("require('fs')", "(await import('node:fs'))")]
    done = subprocess.run(
        command, cwd=PEERS.parent, input=json.dumps(bodies).encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.fixture
def simcord():
    """simcord as a process of its own; what it prints says where it is."""
    python = PEERS.parent / "simcord" / "bin" / "python"
    if not python.exists():
        pytest.skip("simcord is not installed: python3 -m venv .peers/simcord, then its pip install simcord==3.2.1")
    script = Path(__file__).with_name("simcord_server.py")
    with subprocess.Popen([python, script], stdout=subprocess.PIPE) as process:
        yield json.loads(process.stdout.readline())
        process.kill()


@pytest.mark.anyio
async def test_simcord_keeps_a_card_takes_the_answer_and_the_retired_card(simcord, anyio_backend):
    """The stateful peer: posted, found again, pressed and answered within Discord's rules, retired, posted anew."""
    url = f"http://127.0.0.1:{simcord['port']}"
    people = People([Person(name="ana", roles=("approver",), identities={"discord": simcord["user"]})])

    def channel():
        return Discord(
            token="t",
            application=simcord["application"],
            public_key=PUBLIC_KEY,
            conversation=simcord["conversation"],
            people=people,
            base_url=url,
        )

    chat, messages = channel(), f"/channels/{simcord['conversation']}/messages"
    async with httpx.AsyncClient(base_url=url) as peer, opened(chat) as supervisor:

        async def cards():
            return (await peer.get(messages)).json()

        run = await supervisor.start(deployer, "x")
        while not await cards():
            await anyio.sleep(0.02)
        (approval,) = await supervisor.find_approvals()
        (card,) = await cards()
        found = await channel().find_card(approval, approval.created_at, datetime.now(UTC))
        assert found == f"{simcord['conversation']}:{card['id']}"
        button = card["components"][0]["components"][0]
        made = (await peer.post("/_interaction", json={"type": 3, "user": simcord["user"]})).json()
        press = {"type": 3, "token": made["token"], "data": {"custom_id": button["custom_id"]}, "message": card}
        press |= {"application_id": simcord["application"]}
        reply = await chat.webhooks()[0].receive(*signed(press | {"member": {"user": {"id": simcord["user"]}}}))
        callback = f"/interactions/{made['id']}/{made['token']}/callback"
        assert (await peer.post(callback, json=json.loads(reply.body))).status_code == 200
        assert await run.result() == ["ok", "deployed x"]
        while (await cards())[-1]["components"]:
            await anyio.sleep(0.02)
        await peer.delete(f"{messages}/{card['id']}")
        later = channel()
        with pytest.raises(CardGone):
            await later.post(approval, f"{simcord['conversation']}:{card['id']}")
        assert await later.post(approval, None)


@agent
async def echo(ctx: Context, text: str) -> None:
    await ctx.send(f"**{text}**")


@pytest.mark.anyio
async def test_simcord_opens_a_thread_and_keeps_the_answer_in_it(simcord, anyio_backend):
    """/start, within Discord's rules: the person's words, a thread below them, the person in it, and what it says."""
    url, place = f"http://127.0.0.1:{simcord['port']}", simcord["conversation"]
    people = People([Person(name="ana", roles=("operator",), identities={"discord": simcord["user"]})])
    ours = {"application": simcord["application"], "public_key": PUBLIC_KEY, "conversation": place}
    chat = Discord(token="t", **ours, people=people, agent=echo, base_url=url)
    async with httpx.AsyncClient(base_url=url) as peer, opened(chat, people=people):
        made = (await peer.post("/_interaction", json={"type": 2, "user": simcord["user"]})).json()
        options = [{"name": "text", "type": 3, "value": "hello"}]
        used = {"type": 2, "id": made["id"], "token": made["token"], "channel_id": place}
        used |= {"application_id": simcord["application"], "data": {"name": "start", "options": options}}
        reply = await chat.webhooks()[0].receive(*signed(used | {"member": {"user": {"id": simcord["user"]}}}))
        callback = f"/interactions/{made['id']}/{made['token']}/callback"
        assert (await peer.post(callback, json=json.loads(reply.body))).status_code == 200
        thread = re.findall(r"<#(\d+)>", json.loads(reply.body)["data"]["content"])[0]
        assert (await peer.get(f"/channels/{thread}")).json()["name"] == "hello"
        assert "hello" in (await peer.get(f"/channels/{place}/messages/{thread}")).json()["content"]
        while not (found := [m for m in (await peer.get(f"/channels/{thread}/messages")).json() if m["embeds"]]):
            await anyio.sleep(0.02)
    assert found[0]["embeds"][0]["description"] == "**hello**"
