"""A small Discord of our own: keeps messages, takes the routes that the channel uses, and signs what people do."""

import itertools
import json
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from platform_server import served

TOKEN = "a-bot-token"
APPLICATION = "900"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
UNKNOWN_MESSAGE = {"message": "Unknown Message", "code": 10008}


class FakeDiscord:
    """`messages`: id -> message, oldest first. `told`: interaction token -> what was told later."""

    def __init__(self):
        self.messages = {}
        self.nonces = {}  # the message of each, also if it was deleted
        self.told = {}
        self.commands = []
        self.threads = {}  # the name of each
        self.members = []  # (thread, person)
        self.typing = []  # the threads in which the bot was shown as typing
        self.application = {}  # what differs in the application
        self.calls = []
        self.archived = set()  # the threads in which no message can be edited
        self.refused = ""  # where the bot has no access
        self.taken = lambda method, when: None  # told "before" and "after" it does what it is asked
        self.limited = 0  # how many of the next requests are answered with 429
        self.unwell = 0  # how many of the next requests are done, and then answered with 502 and a page
        self.is_out = False  # everything is answered with 500: nothing is done
        self.url = ""
        self._ids = itertools.count(1000)
        self._tokens = itertools.count(1)

    def answer(self, method, path, params, body):
        self.calls.append((method, path))
        if self.refused and path.startswith(self.refused):
            return 403, {"message": "Missing Access", "code": 50001}
        self.taken(method, "before")
        answer = self._do(method, path, params, body)
        self.taken(method, "after")
        return answer

    def _do(self, method, path, params, body):
        if path == "/users/@me/channels":
            return 200, {"id": f"9{body['recipient_id']}"}
        if found := re.fullmatch(r"/channels/(\d+)/messages", path):
            return self._post(found[1], body) if method == "POST" else self._list(found[1], params)
        if found := re.fullmatch(r"/channels/(\d+)/messages/(\d+)", path):
            if found[1] in self.archived:
                return 400, {"message": "Thread is archived", "code": 50083}
            return self._change(method, found[2], body)
        if found := re.fullmatch(r"/webhooks/900/([^/]+)/messages/@original", path):
            self.told[found[1]] = body["content"]
            return 200, {"id": "1"}
        if path == "/applications/@me":
            me = {"id": APPLICATION, "name": "app", "bot": {"username": "supervisor"}, "verify_key": PUBLIC_KEY}
            return 200, {**me, "interactions_endpoint_url": "https://x.example", **self.application}
        if re.fullmatch(r"/channels/\d+", path):
            self.archived -= {path.rpartition("/")[2]} if body == {"archived": False} else set()
            return 200, {"id": path.rpartition("/")[2], "name": "approvals"}
        if path == "/applications/900/commands" and method == "POST":
            self.commands = [*(each for each in self.commands if each["name"] != body["name"]), body]
            return 201, body
        if (done := self._talk(path, body)) is not None:
            return 200, done
        return 404, {"message": "404: Not Found", "code": 0}

    def _talk(self, path, body):
        """Open a thread, take a person into it, or show that the bot types."""
        if found := re.fullmatch(r"/channels/\d+/messages/(\d+)/threads", path):
            self.threads[found[1]] = body["name"]
            return {"id": found[1]}
        if found := re.fullmatch(r"/channels/(\d+)/thread-members/(.+)", path):
            self.members.append((found[1], found[2]))
            return {}
        if found := re.fullmatch(r"/channels/(\d+)/typing", path):
            self.typing.append(found[1])
            return {}
        return None

    def _post(self, channel, body):
        if body.get("enforce_nonce") and body["nonce"] in self.nonces:
            return 200, self.nonces[body["nonce"]]
        id_ = str(next(self._ids))
        author = {"id": APPLICATION, "bot": True}
        message = {"id": id_, "channel_id": channel, "author": author, "timestamp": datetime.now(UTC).isoformat()}
        self.messages[id_] = message | body
        if "nonce" in body:
            self.nonces[body["nonce"]] = self.messages[id_]
        return 200, self.messages[id_]

    def _change(self, method, id_, body):
        if id_ not in self.messages:
            return 404, UNKNOWN_MESSAGE
        if method == "DELETE":
            del self.messages[id_]
            return 204, None
        self.messages[id_] |= body
        return 200, self.messages[id_]

    def _list(self, channel, params):
        found = [m for m in reversed(self.messages.values()) if m["channel_id"] == channel]
        if before := params.get("before"):
            found = [m for m in found if int(m["id"]) < int(before)]
        return 200, found[: int(params["limit"])]

    # -- what people do: the body and headers of the signed request that Discord would send ----------------------------

    def press(self, message, code, user):
        """Press the button with this code on a message."""
        (button,) = [each for each in buttons(message) if each["custom_id"].startswith(f"{code}:")]
        return self._interaction(3, {"custom_id": button["custom_id"], "component_type": 2}, user, message=message)

    def submit(self, form, text, user):
        """Send a form that was opened."""
        field = {"type": 4, "custom_id": "text", "value": text}
        components = [{"type": 1, "components": [field]}]
        return self._interaction(5, {"custom_id": form["custom_id"], "components": components}, user)

    def fill_in(self, form, user, **given):
        """Send a form of several fields: those that are not `given` (by their labels) as they were opened."""
        controls = [filled(row["component"], given.get(row["label"])) for row in form["components"]]
        rows = [{"type": 18, "component": control} for control in controls]
        return self._interaction(5, {"custom_id": form["custom_id"], "components": rows}, user)

    def command(self, name, user, place="77", **options):
        """Use a slash command, in a channel or a thread."""
        given = [{"name": key, "type": 3, "value": value} for key, value in options.items()]
        where = {"id": str(next(self._ids)), "channel_id": place}
        return self._interaction(2, {"name": name, "options": given}, user, **where)

    def _interaction(self, kind, data, user, **more):
        token = f"interaction-{next(self._tokens)}"
        who = {"member": {"user": {"id": user}}}
        return signed({"type": kind, "application_id": APPLICATION, "token": token, "data": data, **who, **more})


def buttons(message):
    """Return the buttons of a message that can be pressed; a link is none."""
    found = [button for row in message.get("components", ()) for button in row["components"]]
    return [button for button in found if "custom_id" in button]


def filled(control, given):
    """Return one field of a form as a person sends it."""
    sent = {"type": control["type"], "custom_id": control["custom_id"]}
    if control["type"] != 3:
        return sent | {"value": control.get("value", "") if given is None else given}
    is_chosen = "default" if given is None else "label"
    chosen = [each["value"] for each in control["options"] if each[is_chosen] == (True if given is None else given)]
    return sent | {"values": chosen}


def signed(payload, *, key=KEY, at=None):
    """Return headers and body as Discord signs them."""
    body = json.dumps(payload).encode()
    stamp = str(int(time.time() if at is None else at))
    signature = key.sign(stamp.encode() + body).hex()
    headers = {"content-type": "application/json", "x-signature-timestamp": stamp, "x-signature-ed25519": signature}
    return headers, body


@contextmanager
def serving(discord):
    """Serve it on loopback, at `discord.url`."""

    def respond(asked):
        if discord.is_out:
            status, answer = 500, {"message": "Internal Server Error", "code": 0}
        elif discord.limited > 0:
            discord.limited -= 1
            status, answer = 429, {"message": "You are being rate limited.", "retry_after": 0.01}
        elif asked.headers.get("authorization") != f"Bot {TOKEN}":
            status, answer = 401, {"message": "401: Unauthorized", "code": 0}
        else:
            params, body = dict(parse_qsl(asked.url.query)), json.loads(asked.body or b"null")
            status, answer = discord.answer(asked.method, asked.url.path, params, body)
        if discord.unwell > 0:
            discord.unwell -= 1
            return 502, b"<html>Bad Gateway", {}
        return status, b"" if status == 204 else json.dumps(answer).encode(), {}

    with served(respond) as discord.url:
        yield discord
