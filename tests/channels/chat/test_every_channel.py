"""The scenes of supervisor.testing, with every channel for which they are cheap."""

import time
from contextlib import asynccontextmanager
from copy import deepcopy

import anyio
import fake_slack
import httpx
import pytest
from board_bench import BoardBench, FakeBoard, blocks, serving
from test_notices import FakeNtfy, Receiver

from supervisor.channels import Slack
from supervisor.channels.sdk import FORMS
from supervisor.channels.slack.talk import SlackChat
from supervisor.channels.slack.web import SlackWeb
from supervisor.core.approvals.people import People
from supervisor.testing import NOTICES_CANNOT, SCENES, CardSeen, ChannelBench, run_scene

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in BoardBench.cannot])
async def test_the_channel_of_the_guide_plays_every_scene(scene):
    """A2, A3, A4, R3: it has fewer than 100 lines."""
    assert len(blocks("python")[0].splitlines()) < 100
    with serving(FakeBoard()) as board:
        await run_scene(BoardBench(board), scene)


class SlackBench(ChannelBench):
    name = "slack"
    identities = ("U1", "U2", "U3")
    session = "slack-c1-1700000000.000001"

    def __init__(self, slack):
        self.slack, self.how = slack, None
        self.seen = {}

    def make(self, people):
        url = "http://127.0.0.1:9/api/" if self.how == "refused" else self.slack.url
        secrets = {"token": fake_slack.TOKEN, "signing_secret": fake_slack.SECRET}
        return Slack(conversation="C1", people=people, base_url=url, **secrets)

    def cards(self):
        found = []
        for message in self.slack.messages.get("C1", ()):
            buttons = [each for block in message["blocks"] for each in block.get("elements", ()) if "action_id" in each]
            if buttons:
                self.seen[message["ts"]] = deepcopy(message)
            named = [str(block["block_id"]) for block in message["blocks"] if "approval:" in block.get("block_id", "")]
            about = {"approval": named[0].split(":")[1], "codes": tuple(each["action_id"] for each in buttons)}
            found.append(CardSeen(card=f"C1:{message['ts']}", text="\n".join(strings(message)), **about))
        return found

    async def press(self, channel, seen, code, identity, text=""):
        message = self.seen[seen.card.partition(":")[2]]
        (hook,) = channel.webhooks()
        await hook.receive(*self.slack.press(message, code, identity))
        if code in FORMS:
            with anyio.fail_after(30):
                while not self.slack.views:
                    await anyio.sleep(0.01)
            await hook.receive(*self.slack.submit(self.slack.views[-1], text, identity))

    async def forge(self, channel, seen, code, identity):
        headers, body = self.slack.press(self.seen[seen.card.partition(":")[2]], code, identity)
        (hook,) = channel.webhooks()
        assert (await hook.receive(headers, body + b"&x=")).status == 401

    @asynccontextmanager
    async def open_chat(self, supervisor):
        yield SlackChat(SlackWeb(fake_slack.TOKEN, self.slack.url), People([]))

    def said(self):
        return ["\n".join(strings(message)) for message in self.slack.messages.get("C1", ())]

    def fail(self, how):
        self.how = how
        self.slack.limited = 1 if how == "429" else 0
        self.slack.out = (500, b"{}") if how == "500" else None
        self.slack.unwell = 1 if how == "lost" else 0
        self.slack.refusals = {"chat.postMessage": "token_revoked"} if how == "revoked" else {}
        self.slack.taken = (lambda method, when: time.sleep(1.0)) if how == "slow" else lambda method, when: None


def strings(value):
    """Iterate over the texts of a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


@pytest.mark.parametrize("scene", SCENES)
async def test_slack_plays_every_scene(scene):
    with fake_slack.serving(fake_slack.FakeSlack()) as slack:
        await run_scene(SlackBench(slack), scene)


class NoticeBench(ChannelBench):
    """ntfy or the hook, over a transport that can fail."""

    cannot = NOTICES_CANNOT

    def __init__(self, there):
        self.there, self.how = there, None
        self.name = "ntfy" if isinstance(there, FakeNtfy) else "hook"

    def make(self, people):
        return self.there.channel(transport=self)

    def cards(self):
        if self.name == "hook":
            data = {each["data"]["id"]: each["data"] for each in self.there.taken.values()}
            return [CardSeen(card=id_, approval=id_, text="\n".join(strings(about))) for id_, about in data.items()]
        newest = {each["sequence_id"]: each for each in self.there.published}
        return [
            CardSeen(card=f"alerts:{id_}", approval=id_, text=f"{each['title']}\n{each['message']}")
            for id_, each in newest.items()
        ]

    def fail(self, how):
        self.how = how
        self.there.is_lost = how == "lost"

    async def handle_async_request(self, request):
        if self.how == "refused":
            raise httpx.ConnectError("refused")
        if self.how == "slow":
            await anyio.sleep(1.0)
        await request.aread()
        if (status := {"429": 429, "500": 500, "revoked": 401}.get(self.how)) is not None:
            return httpx.Response(status)
        return self.there(request)

    async def aclose(self): ...


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in NOTICES_CANNOT])
@pytest.mark.parametrize("there", [FakeNtfy, Receiver])
async def test_a_channel_that_only_notifies_plays_the_other_scenes(there, scene):
    await run_scene(NoticeBench(there()), scene)
