"""A small Discord of our own: keeps messages, takes the routes that the channel uses, and signs what people do."""

import itertools
import json
import re
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TOKEN = "a-bot-token"
APPLICATION = "900"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
UNKNOWN_MESSAGE = {"message": "Unknown Message", "code": 10008}


class FakeDiscord:
    """`messages`: id -> message, oldest first. `told`: interaction token -> what was told later."""

    def __init__(self):
        self.messages = {}
        self.told = {}
        self.commands = []
        self.calls = []
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
        if found := re.fullmatch(r"/channels/(\d+)/messages", path):
            return self._post(found[1], body) if method == "POST" else self._list(found[1], params)
        if (found := re.fullmatch(r"/channels/(\d+)/messages/(\d+)", path)) and method == "PATCH":
            if found[2] not in self.messages:
                return 404, UNKNOWN_MESSAGE
            self.messages[found[2]] |= body
            return 200, self.messages[found[2]]
        if found := re.fullmatch(r"/webhooks/900/([^/]+)/messages/@original", path):
            self.told[found[1]] = body["content"]
            return 200, {"id": "1"}
        if path == "/applications/900/commands":
            self.commands = body
            return 200, body
        return 404, {"message": "404: Not Found", "code": 0}

    def _post(self, channel, body):
        for message in self.messages.values():
            if body.get("enforce_nonce") and message["nonce"] == body["nonce"]:
                return 200, message
        id_ = str(next(self._ids))
        author = {"id": APPLICATION, "bot": True}
        message = {"id": id_, "channel_id": channel, "author": author, "timestamp": datetime.now(UTC).isoformat()}
        self.messages[id_] = message | body
        return 200, self.messages[id_]

    def _list(self, channel, params):
        found = [m for m in reversed(self.messages.values()) if m["channel_id"] == channel]
        if before := params.get("before"):
            found = [m for m in found if int(m["id"]) < int(before)]
        return 200, found[: int(params["limit"])]

    # -- what people do: the body and headers of the signed request that Discord would send ----------------------------

    def press(self, message, code, user):
        """Press the button with this code on a message."""
        buttons = [button for row in message["components"] for button in row["components"]]
        (button,) = [each for each in buttons if each["custom_id"].startswith(f"{code}:")]
        return self._interaction(3, {"custom_id": button["custom_id"], "component_type": 2}, user, message=message)

    def submit(self, form, text, user):
        """Send a form that was opened."""
        field = {"type": 4, "custom_id": "text", "value": text}
        components = [{"type": 1, "components": [field]}]
        return self._interaction(5, {"custom_id": form["custom_id"], "components": components}, user)

    def command(self, name, user, **options):
        """Use a slash command."""
        given = [{"name": key, "type": 3, "value": value} for key, value in options.items()]
        return self._interaction(2, {"name": name, "options": given}, user)

    def _interaction(self, kind, data, user, **more):
        token = f"interaction-{next(self._tokens)}"
        who = {"member": {"user": {"id": user}}}
        return signed({"type": kind, "application_id": APPLICATION, "token": token, "data": data, **who, **more})


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

    class Request(BaseHTTPRequestHandler):
        def handle_any(self):
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if discord.is_out:
                status, answer = 500, {"message": "Internal Server Error", "code": 0}
            elif discord.limited > 0:
                discord.limited -= 1
                status, answer = 429, {"message": "You are being rate limited.", "retry_after": 0.01}
            elif self.headers.get("authorization") != f"Bot {TOKEN}":
                status, answer = 401, {"message": "401: Unauthorized", "code": 0}
            else:
                params = dict(parse_qsl(url.query))
                status, answer = discord.answer(self.command, url.path, params, json.loads(body or b"null"))
            raw = json.dumps(answer).encode()
            if discord.unwell > 0:
                discord.unwell -= 1
                status, raw = 502, b"<html>Bad Gateway"
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            with suppress(ConnectionError):  # who asked has died
                self.end_headers()
                self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815 # the server's names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    discord.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield discord
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
