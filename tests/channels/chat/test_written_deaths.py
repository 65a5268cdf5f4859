"""A daemon is killed while people read what an agent writes; the next one removes that text, and posts the whole."""

import fake_discord
import fake_slack
import fake_telegram
import pytest
from platform_life import ANA
from test_platform_deaths import Daemons, nursery  # noqa: F401 # a fixture
from test_slack import later

WHOLE = "The whole sentence."
THREAD = "1800000000.000001"


class Slack(fake_slack.FakeSlack):
    serving = staticmethod(fake_slack.serving)
    identity = ANA

    def begin(self, daemons):
        return deliver(daemons, "slack/requests", self.say("<@UBOT> write", ANA, THREAD, mention=True))

    def go_on(self, daemons):
        return deliver(daemons, "slack/requests", self.say("go on", ANA, later(), thread=THREAD))

    def said(self):
        found = self.messages.get("C1", ())
        return [block["text"] for message in found for block in message["blocks"] if block["type"] == "markdown"]


class Discord(fake_discord.FakeDiscord):
    serving = staticmethod(fake_discord.serving)
    identity = ANA

    def begin(self, daemons):
        return deliver(daemons, "discord/interactions", self.command("start", ANA, text="write"))

    def go_on(self, daemons):
        used = self.command("say", ANA, place=list(self.threads)[-1], text="go on")
        return deliver(daemons, "discord/interactions", used)

    def said(self):
        return [embed["description"] for message in list(self.messages.values()) for embed in message.get("embeds", ())]


class Telegram(fake_telegram.FakeTelegram):
    serving = staticmethod(fake_telegram.serving)
    identity = "11"

    def begin(self, daemons):
        return super().say("write", 11, chat=11)

    def go_on(self, daemons):
        return super().say("go on", 11, chat=11)

    def said(self):
        return [message["text"].removesuffix("\nwriting…") for message in self.of_bot(11)]


def deliver(daemons, path, request):
    """Deliver the platform's request once; return whether it was taken."""
    return daemons._request(f"/channels/{path}", *request) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fake", "backend", "when"),
    [
        (Slack, "asyncio", "shown"),
        (Slack, "trio", "unanswered"),
        (Discord, "trio", "shown"),
        (Discord, "asyncio", "unanswered"),
        (Telegram, "asyncio", "unanswered"),
    ],
)
def test_a_text_that_a_killed_process_left_is_removed(nursery, tmp_path, fake, backend, when):  # noqa: F811 # a fixture
    """R9: also one of which the process never learned that it was posted; what the agent says is posted once."""
    with fake.serving(fake()) as platform:
        name = fake.__name__.lower()
        daemons = Daemons(nursery, tmp_path, name, backend, platform, identity=fake.identity, talks=True)
        daemons.begin()
        try:
            if when == "unanswered":
                platform.taken = lambda _, then: then == "after" and "Half a sen" in platform.said() and daemons._kill()
            daemons.until(lambda: platform.begin(daemons))
            if when == "shown":
                daemons.until(lambda: "Half a sen" in platform.said())
                daemons._kill()
            daemons.until(lambda: daemons.deaths == 1)
            daemons.until(lambda: platform.said() == [])
            daemons.until(lambda: platform.go_on(daemons))
            daemons.until(lambda: daemons.ask("sessions")["items"][0]["ended_at"])
            daemons.until(lambda: WHOLE in platform.said())
        finally:
            daemons.end()
        assert platform.said() == [WHOLE]
