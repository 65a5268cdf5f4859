"""The scenes of supervisor.testing, with Telegram, Discord and e-mail."""

import json
import time
from contextlib import asynccontextmanager
from copy import deepcopy

import anyio
import fake_discord
import fake_telegram
import mail_server
import pytest
from fake_telegram import GROUP, TOKEN, codes, datas

from supervisor.channels import Discord, Email, SmtpServer, Telegram
from supervisor.channels.discord.rest import DiscordRest
from supervisor.channels.discord.talk import DiscordChat
from supervisor.channels.sdk import FORMS
from supervisor.channels.telegram.bot_api import BotApi
from supervisor.channels.telegram.talk import TelegramChat
from supervisor.testing import NOTICES_CANNOT, SCENES, CardSeen, ChannelBench, run_scene

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Session.login_data:DeprecationWarning")]

UNSEARCHED = (
    "Telegram cannot be searched: a card that was not recorded stays as a text without buttons (test_telegram.py)"
)


@pytest.fixture
def anyio_backend():
    """test_telegram_talk.py, test_discord.py and test_mail.py run on both."""
    return "trio"


class TelegramBench(ChannelBench):
    name = "telegram"
    identities = ("11", "22", "99")
    session = "telegram--1001234-0-7"
    cannot = dict.fromkeys(("killed before record", "slow", "lost"), UNSEARCHED)

    def __init__(self, telegram):
        self.telegram, self.how, self.opened, self.has_failed = telegram, None, {}, False
        self.made = []

    def make(self, people):
        url = "http://127.0.0.1:9" if self.how == "refused" else self.telegram.url
        self.made.append(Telegram(token=TOKEN, conversation=GROUP, people=people, base_url=url))
        return self.made[-1]

    def cards(self):
        """A card has its buttons once it is recorded; the scenes of failures post without recording."""
        found = []
        for message in self.telegram.cards():
            if codes(message):
                self.opened[message["message_id"]] = deepcopy(message)
            if message["message_id"] in self.opened or self.has_failed:
                card, approval = f"{GROUP}:{message['message_id']}", message["text"].rpartition("\n")[2]
                about = {"text": message["text"], "codes": tuple(codes(message))}
                found.append(CardSeen(card=card, approval=approval, **about))
        return found

    async def press(self, channel, seen, code, identity, text=""):
        message = self.opened[int(seen.card.rpartition(":")[2])]
        self.telegram.press(message, code, identity)
        if code == "edit":  # field by field, or as JSON
            while not (forms := [each for each in self.telegram.of_bot() if "fill." in each["text"]]):
                await anyio.sleep(0.01)
            self.telegram.press(forms[0], next(each for each in codes(forms[0]) if each.endswith(".json")), identity)
        if code in FORMS:
            prompts = []
            while not prompts:
                await anyio.sleep(0.01)
                prompts = [
                    each for each in self.telegram.of_bot() if each["text"].endswith(f"\n{code} {seen.approval}")
                ]
            self.telegram.say(text, int(identity), reply_to=prompts[0])

    async def forge(self, channel, seen, code, identity):
        """A changed client can send any data."""
        message = self.opened[int(seen.card.rpartition(":")[2])]
        for data in (f"approve.7:{seen.approval}", f"yes:{seen.approval}", datas(message)[0] + "x"):
            self.telegram.press_forged(message, data, int(identity))
        while len(self.telegram.alerts) < 3:
            await anyio.sleep(0.01)

    @asynccontextmanager
    async def open_chat(self, supervisor):
        async with BotApi(TOKEN, self.telegram.url) as api:
            yield TelegramChat(api, "telegram", lambda: supervisor)

    def said(self):
        return [message["text"] for message in self.telegram.of_bot()]

    def fail(self, how):
        self.how, self.has_failed = how, True
        self.telegram.limited = 1 if how == "429" else 0
        self.telegram.out = (500, b"{}") if how == "500" else None
        self.telegram.token = "1:another" if how == "revoked" else TOKEN


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in TelegramBench.cannot])
async def test_telegram_plays_every_scene(scene):
    with fake_telegram.serving(fake_telegram.FakeTelegram()) as telegram:
        bench = TelegramBench(telegram)
        await run_scene(bench, scene)
        for chat in bench.made:  # those that did not serve, too
            await chat.platform.api._client.aclose()


class DiscordBench(ChannelBench):
    """There is no scene that Discord cannot play."""

    name = "discord"
    identities = ("11", "22", "99")
    session = "discord-555"

    def __init__(self, discord):
        self.discord, self.how, self.live = discord, None, {}

    def make(self, people):
        return Discord(
            token="another" if self.how == "revoked" else fake_discord.TOKEN,
            application=fake_discord.APPLICATION,
            public_key=fake_discord.PUBLIC_KEY,
            conversation="77",
            people=people,
            base_url="http://127.0.0.1:9" if self.how == "refused" else self.discord.url,
        )

    def cards(self):
        found = []
        for message in list(self.discord.messages.values()):
            codes = tuple(button["custom_id"].partition(":")[0] for button in fake_discord.buttons(message))
            if codes:
                self.live[message["id"]] = deepcopy(message)
            for embed in message.get("embeds", ()):
                text = "\n".join([message.get("content", ""), embed["title"], embed["description"]])
                about = {"approval": embed["footer"]["text"], "text": text, "codes": codes}
                found.append(CardSeen(card=f"77:{message['id']}", **about))
        return found

    async def press(self, channel, seen, code, identity, text=""):
        (hook,) = channel.webhooks()
        message = self.live[seen.card.partition(":")[2]]
        reply = await hook.receive(*self.discord.press(message, code, identity))
        if code in FORMS:
            await hook.receive(*self.discord.submit(json.loads(reply.body)["data"], text, identity))

    async def forge(self, channel, seen, code, identity):
        (hook,) = channel.webhooks()
        headers, body = self.discord.press(self.live[seen.card.partition(":")[2]], code, identity)
        assert (await hook.receive(headers, body + b" ")).status == 401

    @asynccontextmanager
    async def open_chat(self, supervisor):
        async with DiscordRest(fake_discord.TOKEN, self.discord.url) as rest:
            yield DiscordChat(rest)

    def said(self):
        return [message["embeds"][0]["description"] for message in list(self.discord.messages.values())]

    def fail(self, how):
        self.how = how
        self.discord.limited = 1 if how == "429" else 0
        self.discord.is_out = how == "500"
        self.discord.unwell = 1 if how == "lost" else 0
        self.discord.taken = (lambda method, when: time.sleep(1.0)) if how == "slow" else lambda method, when: None


@pytest.mark.parametrize("scene", SCENES)
async def test_discord_plays_every_scene(scene):
    with fake_discord.serving(fake_discord.FakeDiscord()) as discord:
        await run_scene(DiscordBench(discord), scene)


class EmailBench(ChannelBench):
    name = "email"
    identities = ("ana@example.org", "bob@example.org", "eve@example.org")
    cannot = NOTICES_CANNOT | {"card": "it says what would run, too; test_mail.py looks at that"}

    def __init__(self, box):
        self.box, self.how = box, None

    def make(self, people):
        password = "another" if self.how == "revoked" else mail_server.PASSWORD
        server = SmtpServer(
            host="127.0.0.1",
            port=9 if self.how == "refused" else self.box.port,
            ca_file=self.box.ca_file,
            user=mail_server.USER,
            password=password,
        )
        return Email(server=server, sender="supervisor@example.org", people=people)

    def cards(self):
        """Mail programs know a message that comes twice by its id."""
        letters = {letter["Message-ID"]: letter for _, letter in self.box.letters}
        return [
            CardSeen(card=approval, approval=approval, text=letter.get_content())
            for id_, letter in letters.items()
            if (approval := id_.removeprefix("<asked.").partition("@")[0]) and id_.startswith("<asked.")
        ]

    def fail(self, how):
        self.how = how
        self.box.refusals[:] = {"429": ["451 later"], "500": ["554 no"]}.get(how, [])
        self.box.delay = 1.0 if how == "slow" else 0.0
        self.box.is_lost = how == "lost"


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    with mail_server.receiving(tmp_path_factory.mktemp("mail")) as box:
        yield box


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in EmailBench.cannot])
async def test_email_plays_the_scenes_of_a_notice(box, scene):
    box.letters.clear()
    await run_scene(EmailBench(box), scene)
