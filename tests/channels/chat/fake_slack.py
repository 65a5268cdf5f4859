"""A small Slack of our own: keeps messages, takes the methods that the channel uses, and signs what people do."""

import hashlib
import hmac
import itertools
import json
import math
import time
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode

from platform_server import served

SECRET = "a signing secret"
TOKEN = "xoxb-a-token"


class FakeSlack:
    """`messages`: conversation -> messages, oldest first. `whispers`: (user, text) told to one person alone."""

    def __init__(self):
        self.messages = {}
        self.whispers = []
        self.whispered_in = []  # the thread of each; None outside threads
        self.views = []
        self.scopes = "chat:write,app_mentions:read,channels:history"
        self.place = {}  # what differs from a conversation that the app is in
        self.signs = []  # (message, status or reaction; "" when it is taken away)
        self.calls = []
        self.taken = lambda method, when: None  # told "before" and "after" it does what it is asked
        self.limited = 0  # how many of the next requests are answered with 429
        self.allowed_at = {}  # method -> from when on it may be called; until then a 429, which says how long it is
        self.refusals = {}  # method -> error
        self.archived = []  # conversations in which nothing can be posted or read
        self.unknown_blocks = ()  # types of blocks that it refuses
        self.unwell = 0  # how many of the next requests are done, and then answered with `page`
        self.page = 502, b"<html>Bad Gateway"
        self.out = None  # status and page that everything is answered with while it is not well: nothing is done
        self.ahead = 0  # seconds by which its clock is ahead of ours
        self._clock = itertools.count(1)
        self.url = ""

    def answer(self, method, arguments):
        self.calls.append(method)
        if method in self.refusals:
            return {"ok": False, "error": self.refusals[method]}
        if arguments.get("channel") in self.archived:
            return {"ok": False, "error": "is_archived"}
        self.taken(method, "before")
        answer = getattr(self, method.replace(".", "_"))(**arguments)
        self.taken(method, "after")
        return answer

    def auth_test(self):
        return {"ok": True, "user": "supervisor", "user_id": "UBOT", "team": "Team", "team_id": "T1"}

    def conversations_info(self, channel):
        return {"ok": True, "channel": {"id": channel, "name": "ops", "is_member": True, **self.place}}

    def apps_connections_open(self):
        return {"ok": False, "error": "invalid_auth"}

    def chat_postMessage(self, channel, text, blocks, thread_ts=None, **more):  # noqa: N802 # Slack's names
        if any(block["type"] in self.unknown_blocks for block in blocks):
            return {"ok": False, "error": "invalid_blocks"}
        channel = f"D-{channel}" if channel.startswith("U") else channel  # a direct message
        ts = f"{time.time() + self.ahead:.0f}.{next(self._clock):06d}"
        blocks = [{k: v for k, v in each.items() if (each["type"], k) != ("markdown", "block_id")} for each in blocks]
        has_previews = more.get("unfurl_links", True) or more.get("unfurl_media", True)
        message = {"ts": ts, "text": text, "blocks": blocks, "bot_id": "B1", "has_previews": has_previews}
        self.messages.setdefault(channel, []).append(message | ({"thread_ts": thread_ts} if thread_ts else {}))
        return {"ok": True, "channel": channel, "ts": ts}

    def chat_update(self, channel, ts, text, blocks):
        for message in self.messages.get(channel, []):
            if message["ts"] == ts:
                message |= {"text": text, "blocks": blocks}
                return {"ok": True, "ts": ts}
        return {"ok": False, "error": "message_not_found"}

    def chat_delete(self, channel, ts):
        found = [message for message in self.messages.get(channel, []) if message["ts"] == ts]
        for message in found:
            self.messages[channel].remove(message)
        return {"ok": True, "ts": ts} if found else {"ok": False, "error": "message_not_found"}

    def chat_postEphemeral(self, channel, user, text, thread_ts=None):  # noqa: N802 # Slack's names
        self.whispers.append((user, text))
        self.whispered_in.append(thread_ts)
        return {"ok": True}

    def respond(self, text, response_type, replace_original):
        self.whispers.append((response_type, text))
        return {"ok": True}

    def assistant_threads_setStatus(self, channel_id, thread_ts, status):  # noqa: N802 # Slack's names
        self.signs.append((thread_ts, status))
        return {"ok": True}

    def reactions_add(self, channel, timestamp, name):
        self.signs.append((timestamp, name))
        return {"ok": True}

    def reactions_remove(self, channel, timestamp, name):
        self.signs.append((timestamp, ""))
        return {"ok": True}

    def views_open(self, trigger_id, view):
        self.views.append(view)
        return {"ok": True}

    def conversations_open(self, users):
        return {"ok": True, "channel": {"id": f"D-{users}"}}

    def conversations_history(self, channel, oldest="0", latest="inf", limit="200", cursor="0"):
        found = [m for m in self._within(channel, oldest, latest) if "thread_ts" not in m]
        return self._page(list(reversed(found)), cursor)

    def conversations_replies(self, channel, ts, oldest="0", latest="inf", limit="200", cursor="0"):
        found = [m for m in self._within(channel, oldest, latest) if ts in (m["ts"], m.get("thread_ts"))]
        return self._page(found, cursor)

    def _within(self, channel, oldest, latest):
        return [m for m in self.messages.get(channel, []) if float(oldest) < float(m["ts"]) < float(latest)]

    def _page(self, found, cursor, size=2):
        end = int(cursor or 0) + size
        more = str(end) if end < len(found) else ""
        return {"ok": True, "messages": found[int(cursor or 0) : end], "response_metadata": {"next_cursor": more}}

    # -- what people do: the body and headers of the signed request that Slack would send ------------------------------

    def press(self, message, code, user, channel="C1"):
        """Press the button with this code on a message."""
        buttons = [b for block in message["blocks"] if block["type"] == "actions" for b in block["elements"]]
        (button,) = [each for each in buttons if each["action_id"] == code]
        block = next(b["block_id"] for b in message["blocks"] if b["type"] == "actions" and button in b["elements"])
        payload = {
            "type": "block_actions",
            "user": {"id": user},
            "channel": {"id": channel},
            "container": {"type": "message", "message_ts": message["ts"], "channel_id": channel}
            | ({"thread_ts": message["thread_ts"]} if "thread_ts" in message else {}),
            "trigger_id": "trigger",
            "actions": [{"type": "button", "block_id": block, "action_id": code, "value": button["value"]}],
        }
        return signed(urlencode({"payload": json.dumps(payload)}), "application/x-www-form-urlencoded")

    def submit(self, view, text, user):
        """Send a form that was opened."""
        filled = view | {"state": {"values": {"field": {"text": {"type": "plain_text_input", "value": text}}}}}
        payload = {"type": "view_submission", "user": {"id": user}, "view": filled}
        return signed(urlencode({"payload": json.dumps(payload)}), "application/x-www-form-urlencoded")

    def fill_in(self, view, user, **given):
        """Send a form of several fields: those that are not `given` (by their labels) as they were opened."""
        inputs = [block for block in view["blocks"] if block["type"] == "input"]
        values = {each["block_id"]: {"value": filled(each, given.get(each["label"]["text"]))} for each in inputs}
        payload = {"type": "view_submission", "user": {"id": user}, "view": view | {"state": {"values": values}}}
        return signed(urlencode({"payload": json.dumps(payload)}), "application/x-www-form-urlencoded")

    def say(self, text, user, ts, thread=None, channel="C1", mention=False, again=False, **more):
        """Say something, in a thread or to the app; `again`: as Slack delivers an unacknowledged message."""
        kind = "app_mention" if mention else "message"
        event = {"type": kind, "user": user, "text": text, "channel": channel, "ts": ts, **more}
        event |= {"thread_ts": thread} if thread else {}
        payload = {"type": "event_callback", "event": event, "authorizations": [{"user_id": "UBOT", "is_bot": True}]}
        headers, body = signed(json.dumps(payload), "application/json")
        return (headers | {"x-slack-retry-num": "1"} if again else headers), body

    def command(self, text, user, channel="C1"):
        """Use the slash command."""
        fields = {"command": "/supervisor", "text": text, "user_id": user, "channel_id": channel}
        fields["response_url"] = f"{self.url}respond"
        return signed(urlencode(fields), "application/x-www-form-urlencoded")


def filled(block, given):
    """Return the state of one field of a form: what a person chose or wrote, or else what it was opened with."""
    element = block["element"]
    match element["type"]:
        case "static_select":
            options = {option["text"]["text"]: option for option in element["options"]}
            return {"selected_option": element.get("initial_option") if given is None else options[given]}
        case "datepicker":
            return {"selected_date": element.get("initial_date") if given is None else given}
        case _:
            return {"value": element.get("initial_value") if given is None else given}


def signed(body, media_type, *, at=None, secret=SECRET):
    """Return headers and body as Slack signs them."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"content-type": media_type, "x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}
    return headers, body.encode()


@contextmanager
def serving(slack):
    """Serve it on loopback, at `slack.url`."""

    def respond(asked):
        method, text = asked.url.path.rsplit("/", 1)[1], asked.body.decode()
        if slack.out is not None:
            return *slack.out, {}
        limited = {"ok": False, "error": "ratelimited"}
        if slack.limited > 0:
            slack.limited -= 1
            return page(429, limited, {"Retry-After": "0"})
        if (wait := slack.allowed_at.get(method, 0) - time.monotonic()) > 0:
            slack.calls.append(method)
            return page(429, limited, {"Retry-After": math.ceil(wait)})
        if asked.headers.get("authorization") != f"Bearer {TOKEN}" and method != "respond":
            return page(200, {"ok": False, "error": "invalid_auth"}, {})
        is_json = asked.headers.get("content-type", "").startswith("application/json")
        arguments = dict(parse_qsl(asked.url.query)) | (json.loads(text) if is_json and text else dict(parse_qsl(text)))
        return page(200, slack.answer(method, arguments), {"X-OAuth-Scopes": slack.scopes})

    def page(status, answer, headers):
        if slack.unwell > 0:
            slack.unwell -= 1
            return *slack.page, headers
        return status, json.dumps(answer).encode(), headers

    with served(respond) as url:
        slack.url = f"{url}/api/"
        yield slack
