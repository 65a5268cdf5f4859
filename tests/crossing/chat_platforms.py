"""The fakes of the chat platforms as crossings need them: with a state that can be recorded, and one face for all.

A card is the message of an approval that has buttons or had them; `forms` are what a person has opened and not sent.
"""

import datetime as dt
import itertools
import json
import re
import time
from typing import Any

import anyio
import fake_discord
import fake_slack
import fake_telegram

from supervisor import People, Person
from supervisor.channels import Discord, Slack, Telegram

PATIENCE = 30.0
APPROVAL = re.compile(r"\b[a-z2-7]{42}\b")


async def until(condition: Any) -> Any:
    """Wait until a condition returns something, and return it: threads and other tasks cause it."""
    with anyio.fail_after(PATIENCE):
        while not (found := condition()):
            await anyio.sleep(0.005)
        return found


async def give(chat: Any, request: Any) -> Any:
    """Bring what the platform sends to the channel, as the daemon does. One that is not open yet is asked again."""
    with anyio.fail_after(PATIENCE):
        while (reply := await chat.webhooks()[0].receive(*request)).status != 200:
            await anyio.sleep(0.005)
        return reply


class Platform:
    """One platform with one channel. `fake`: what tests/channels/chat has of it."""

    name: str
    ana: str
    edits: tuple[str, ...]
    posts: tuple[str, ...]

    def __init__(self) -> None:
        self.fake: Any = None
        self.chat: Any = None
        self.people = People([Person(name="ana", roles=("operator",), identities={self.name: self.ana})])

    def open(self, **options: Any) -> Any:
        """Return the channel of a new process."""
        self.chat = self.make(people=self.people, base_url=self.fake.url, **options)
        return self.chat

    def make(self, **options: Any) -> Any:
        raise NotImplementedError

    def save(self, at: dt.datetime) -> tuple[Any, dict[str, str]]:
        """Return the state as a document, and the texts of the store that must be replaced for it."""
        raise NotImplementedError

    def load(self, state: Any) -> None:
        raise NotImplementedError

    def cards(self) -> dict[str, Any]:
        """Return the cards by their approvals, the oldest first."""
        raise NotImplementedError

    def codes(self, card: Any) -> list[str]:
        """Return the codes of the buttons of a card."""
        raise NotImplementedError

    async def press(self, card: Any, code: str) -> None:
        raise NotImplementedError

    async def open_form(self, approval: str, code: str) -> Any:
        """Press a button that opens a form, and return the form."""
        raise NotImplementedError

    async def half_fill(self, form: Any, fields: Any) -> Any:
        """Leave a form as a person does who goes away. Return what is then to be sent."""
        return form

    async def send(self, form: Any, given: Any) -> None:
        """Fill in what is missing in a form, and send it. `given`: a text, or fields by their labels."""
        raise NotImplementedError

    def count(self, methods: tuple[str, ...]) -> int:
        """Return how often the platform was asked to do one of these."""
        raise NotImplementedError


class OnSlack(Platform):
    name, ana = "slack", "U-ANA"
    edits, posts = ("chat.update",), ("chat.postMessage",)

    def __init__(self) -> None:
        super().__init__()
        self.fake = fake_slack.FakeSlack()
        self.serving = fake_slack.serving(self.fake)

    def make(self, **options: Any) -> Slack:
        given = {"token": fake_slack.TOKEN, "signing_secret": fake_slack.SECRET, "conversation": "C1"}
        return Slack(**given, **options)

    def save(self, at: dt.datetime) -> tuple[Any, dict[str, str]]:
        stamps = [message["ts"] for message in self.fake.messages["C1"]]
        fixed = {each: f"{at.timestamp():.0f}.{each.partition('.')[2]}" for each in stamps}
        return {"messages": self.fake.messages}, fixed

    def load(self, state: Any) -> None:
        self.fake.messages = state["messages"]
        self.fake._clock = itertools.count(1000)

    def cards(self) -> dict[str, Any]:
        return {APPROVAL.search(json.dumps(each["blocks"]))[0]: each for each in self.fake.messages.get("C1", ())}

    def codes(self, card: Any) -> list[str]:
        blocks = [block for block in card["blocks"] if block["type"] == "actions"]
        return [button["action_id"] for block in blocks for button in block["elements"]]

    async def press(self, card: Any, code: str) -> None:
        await self._give(self.fake.press(card, code, self.ana))

    async def open_form(self, approval: str, code: str) -> Any:
        await self.press(self.cards()[approval], code)
        return self.fake.views.pop()

    async def send(self, form: Any, given: Any) -> None:
        if isinstance(given, str):
            await self._give(self.fake.submit(form, given, self.ana))
        else:
            await self._give(self.fake.fill_in(form, self.ana, **given))

    async def _give(self, request: Any) -> None:
        await give(self.chat, request)

    def count(self, methods: tuple[str, ...]) -> int:
        return sum(call in methods for call in self.fake.calls)


class OnDiscord(Platform):
    name, ana = "discord", "11"
    edits, posts = ("PATCH",), ("POST",)

    def __init__(self) -> None:
        super().__init__()
        self.fake = fake_discord.FakeDiscord()
        self.serving = fake_discord.serving(self.fake)

    def make(self, **options: Any) -> Discord:
        given = {"token": fake_discord.TOKEN, "application": fake_discord.APPLICATION, "conversation": "77"}
        return Discord(**given, public_key=fake_discord.PUBLIC_KEY, **options)

    def save(self, at: dt.datetime) -> tuple[Any, dict[str, str]]:
        messages = {key: each | {"timestamp": at.isoformat()} for key, each in self.fake.messages.items()}
        return {"messages": messages}, {}

    def load(self, state: Any) -> None:
        self.fake.messages = state["messages"]
        self.fake._ids = itertools.count(5000)

    def cards(self) -> dict[str, Any]:
        return {each["embeds"][0]["footer"]["text"]: each for each in [*self.fake.messages.values()]}

    def codes(self, card: Any) -> list[str]:
        return [button["custom_id"].partition(":")[0] for button in fake_discord.buttons(card)]

    async def press(self, card: Any, code: str) -> Any:
        return await self._give(self.fake.press(card, code, self.ana))

    async def open_form(self, approval: str, code: str) -> Any:
        return (await self.press(self.cards()[approval], code))["data"]

    async def send(self, form: Any, given: Any) -> None:
        if isinstance(given, str):
            await self._give(self.fake.submit(form, given, self.ana))
        else:
            await self._give(self.fake.fill_in(form, self.ana, **given))

    async def _give(self, request: Any) -> Any:
        return json.loads((await give(self.chat, request)).body)

    def count(self, methods: tuple[str, ...]) -> int:
        return sum(
            method in methods and "/messages" in path and "webhooks" not in path for method, path in self.fake.calls
        )


class OnTelegram(Platform):
    name, ana = "telegram", "11"
    edits, posts = ("editMessageText",), ("sendMessage",)

    def __init__(self) -> None:
        super().__init__()
        self.fake = fake_telegram.FakeTelegram()
        self.serving = fake_telegram.serving(self.fake)

    def make(self, **options: Any) -> Telegram:
        return Telegram(token=fake_telegram.TOKEN, conversation=fake_telegram.GROUP, **options)

    def save(self, at: dt.datetime) -> tuple[Any, dict[str, str]]:
        messages = [*self.fake.messages.values()]
        dates = {message["date"] for message in messages}
        return {"messages": messages}, {f'"date": {date}': f'"date": {at.timestamp():.0f}' for date in dates}

    def load(self, state: Any) -> None:
        self.fake.messages = {(each["chat"]["id"], each["message_id"]): each for each in state["messages"]}
        self.fake._ids, self.fake._update_ids = itertools.count(5000), itertools.count(9000)

    def cards(self) -> dict[str, Any]:
        return {each["text"].rpartition("\n")[2]: each for each in self.fake.cards()}

    def codes(self, card: Any) -> list[str]:
        return fake_telegram.codes(card)

    async def press(self, card: Any, code: str) -> None:
        self.fake.press(card, code, self.ana)

    async def open_form(self, approval: str, code: str) -> Any:
        """Return the message that asks for the text, or for the first field."""
        return await self._next(lambda: self.fake.press(self.cards()[approval], code, self.ana))

    async def _next(self, act: Any) -> Any:
        before = {each["message_id"] for each in self.fake.of_bot()}
        act()
        return await until(lambda: next((m for m in self.fake.of_bot() if m["message_id"] not in before), None))

    async def half_fill(self, form: Any, fields: Any) -> Any:
        """Answer the first field; or, for fields that a reply of JSON can be sent for, ask for that."""
        if isinstance(fields, str):
            return await self._next(lambda: self._act(form, "json")) if self._action(form, "json") else form
        label, value = next(iter(fields.items()))
        await self._answer(form, label, value)
        await until(lambda: f": {label}\n" not in form["text"])
        return form

    async def send(self, form: Any, given: Any) -> None:
        """Reply to what asks for a text; or answer field after field, and send the whole."""
        if isinstance(given, str):
            self.fake.say(given, int(self.ana), reply_to=form)
            return
        for label, value in given.items():
            await self._answer(form, label, value)
        whole = await until(lambda: next((each for each in self._since(form) if self._action(each, "send")), None))
        self._act(whole, "send")

    async def _answer(self, form: Any, label: str, value: str) -> None:
        """Press the button with this text, or write it, when the form or a later message of it asks for a field."""
        asks = await until(
            lambda: next(
                (each for each in self._since(form) if f": {label}\n" in each["text"] and self.codes(each)), None
            )
        )
        offered = {button["text"]: button["callback_data"] for row in self._rows(asks) for button in row}
        if value in offered:
            self.fake.press_forged(asks, offered[value], self.ana)
        else:
            self.fake.say(value, int(self.ana), reply_to=asks)

    def press_lost(self, form: Any) -> None:
        """Press a button of a form of before."""
        self._act(form, "skip" if self._action(form, "skip") else "leave")

    def _action(self, message: Any, action: str) -> str | None:
        return next((code for code in self.codes(message) if code.endswith(f".{action}")), None)

    def _act(self, message: Any, action: str) -> None:
        self.fake.press(message, self._action(message, action), self.ana)

    def _since(self, form: Any) -> list[Any]:
        return [each for each in self.fake.of_bot() if each["message_id"] >= form["message_id"]]

    def _rows(self, message: Any) -> Any:
        return message.get("reply_markup", {}).get("inline_keyboard", ())

    def count(self, methods: tuple[str, ...]) -> int:
        return sum(call in methods for call in self.fake.calls)


PLATFORMS = {each.name: each for each in (OnSlack, OnDiscord, OnTelegram)}


async def quiet(platform: Platform) -> None:
    """Wait until the platform is asked for nothing more. A busy machine may find it quiet too early: then a test sees
    less than happens, and does not fail."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 0.1:
        await anyio.wait_all_tasks_blocked()
        if (count := platform.count(platform.edits + platform.posts)) != last:
            last, since = count, time.monotonic()
        await anyio.sleep(0.01)
