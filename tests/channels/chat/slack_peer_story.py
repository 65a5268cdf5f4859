"""A story with local-slack, in a network namespace of its own; prints what happened as JSON.

    unshare -n python slack_peer_story.py BINARY FOLDER BACKEND

A mention begins a session with an agent that asks; its card is posted in the thread; the daemon is killed; another
takes the store up; the old card's button is pressed; the run goes on, and its result is told in the thread, once. At
last a direct message begins another session, in its own thread.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SLACK, DAEMON = 3000, 8787
EVENTS = f"http://127.0.0.1:{DAEMON}/channels/slack/requests"
CONFIGURATION = f"""
store = "state.db"
[agents.deployer]
import = "agents.py:deployer"
[people.ana]
roles = ["operator"]
identities = {{ slack = "U0ANA" }}
[channels.slack]
conversation = "C0GENERAL"
agent = "deployer"
base_url = "http://127.0.0.1:{SLACK}/api/"
"""
AGENTS = """
from pathlib import Path
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    with Path("ran").open("a") as file:
        file.write(target + "\\n")
    return f"deployed {target}"

@agent
async def deployer(ctx: Context, text: str) -> str:
    return (await ctx.call(deploy, text)).content
"""


def main(binary: str, folder: Path, backend: str, mode: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "supervisor.toml").write_text(CONFIGURATION)
    (folder / "agents.py").write_text(AGENTS)
    workspace = {
        "apps": [{"mode": mode, "requestUrl": EVENTS}],
        "users": [{"id": "U0ANA", "name": "ana"}, {"id": "U0EVE", "name": "eve"}],
        "channels": [{"id": "C0GENERAL", "name": "general", "members": ["U0ANA", "U0EVE", "U0BOT"]}],
    }
    workspace["channels"].append({"id": "D0ANA", "name": "ana", "is_im": True, "members": ["U0ANA", "U0BOT"]})
    (folder / "slack.json").write_text(json.dumps(workspace))
    with (folder / "slack.log").open("wb") as log:
        slack = subprocess.Popen([binary, "--config", folder / "slack.json"], stdout=log, stderr=log)
    try:
        until(lambda: is_open(SLACK))
        print(json.dumps(story(folder, backend, mode)))
    finally:
        slack.kill()


def story(folder: Path, backend: str, mode: str) -> dict:
    told = {}
    daemon = serve(folder, backend, mode)
    try:
        control("message", channel="C0GENERAL", user="U0ANA", text="<@U0BOT> web-1")
        (card,) = until(cards)
        told["in_thread"] = "thread_ts" in card
        press(card, "U0EVE")
        told["refused"] = len(until(lambda: [m for m in messages() if m.get("ephemeral_to") == "U0EVE"]))
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        daemon = serve(folder, backend, mode)
        press(card, "U0ANA")
        said = until(lambda: [m for m in messages() if "deployed web-1" in m["text"]])
        until(lambda: not cards())
        told |= {"said": len(said), "cards": len([m for m in messages() if "asks" in m["text"]])}
        told["ran"] = (folder / "ran").read_text()
        control("message", channel="D0ANA", user="U0ANA", text="web-2")
        (card,) = until(lambda: cards("D0ANA"))
        told["in_direct_message"] = card["thread_ts"] == messages("D0ANA")[0]["ts"]
        return told
    finally:
        daemon.terminate()
        daemon.wait(60)


def serve(folder: Path, backend: str, mode: str) -> subprocess.Popen:
    connected = connections()
    secrets = {"SLACK_BOT_TOKEN": "xoxb-test-token"}
    secrets |= {"SLACK_APP_TOKEN": "xapp-test-token"} if mode == "socket" else {}
    secrets |= {"SLACK_SIGNING_SECRET": "test-signing-secret"} if mode == "events" else {}
    command = [sys.executable, "-m", "supervisor", "serve", "--config", "supervisor.toml", "--backend", backend]
    with (folder / "daemon.log").open("ab") as log:
        process = subprocess.Popen([*command], cwd=folder, env=os.environ | secrets, stdout=log, stderr=log)
    until(lambda: is_open(DAEMON))
    if mode == "socket":
        until(lambda: connections() > connected)
    return process


def connections() -> int:
    """Return how many connections there have been in Socket Mode."""
    return request("/_control/log").count(b"(hello)")


def press(card: dict, user: str) -> None:
    (button,) = [b for block in card["blocks"] for b in block.get("elements", ()) if b.get("action_id") == "approve.0"]
    block = next(block["block_id"] for block in card["blocks"] if block["type"] == "actions")
    action = {**button, "block_id": block}
    control("interact", channel="C0GENERAL", messageTs=card["ts"], user=user, action=action)


def cards(conversation: str = "C0GENERAL") -> list[dict]:
    """Return the messages that have buttons."""
    return [m for m in messages(conversation) if any(block["type"] == "actions" for block in m.get("blocks", ()))]


def messages(conversation: str = "C0GENERAL") -> list[dict]:
    return json.loads(request(f"/_control/messages/{conversation}"))["messages"]


def control(what: str, **body) -> None:
    request(f"/_control/{what}", json.dumps(body).encode())


def request(path: str, body: bytes | None = None) -> bytes:
    asked = urllib.request.Request(f"http://127.0.0.1:{SLACK}{path}", body, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.read()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(condition, seconds: float = 40.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"it did not happen; {request('/_control/log').decode()[-3000:]}")
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
