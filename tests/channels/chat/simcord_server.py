"""simcord over HTTP: a Discord that keeps state. Run by the Python that it is installed for; prints its address.

In addition to Discord's routes, POST /_interaction {type, user} makes an interaction as Discord does when a person
acts, and returns its id and token. The answer of our endpoint is then given to /interactions/ID/TOKEN/callback.
"""

import json
import warnings
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

warnings.simplefilter("ignore")

from simcord._clock import Clock  # noqa: E402 # it warns while it is imported
from simcord.backend import Backend  # noqa: E402
from simcord.backend.errors import BackendError  # noqa: E402
from simcord.http import client, dispatch  # noqa: E402, F401 # the client registers the routes

clock = Clock()
clock.advance((datetime.now(UTC) - clock.now()).total_seconds())
backend = Backend(clock=clock)
guild = backend.create_guild("guild")
backend.add_member(guild.id, backend.bot_user.id)
user = backend.make_user("ana")
backend.add_member(guild.id, user.id)
conversation = backend.create_channel(guild.id, "approvals")


def answer(method, path, params, body):
    if path == "/_interaction":
        made = backend.new_interaction(body["type"], conversation.id, user.id, guild.id)
        return {"id": str(made.id), "token": made.token}
    return dispatch(backend, method, path, json=body, params=params)


class Request(BaseHTTPRequestHandler):
    def handle_any(self):
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            status, found = 200, answer(self.command, url.path, dict(parse_qsl(url.query)), json.loads(body or b"null"))
        except BackendError as error:
            status, found = error.status, error.to_json()
        raw = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 # the server's names

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Request)
where = {"port": server.server_address[1], "application": str(backend.application_id)}
print(json.dumps(where | {"conversation": str(conversation.id), "user": str(user.id)}), flush=True)
server.serve_forever()
