"""`supervisor serve` on a namespace, as its users have it: a process with a mirror, a small platform, and HTTP."""

import re
import signal
import subprocess
from pathlib import Path

import fake_discord
import fake_slack
import httpx

TOKEN = "a-token-that-is-long-enough-for-tests"
SERVING = re.compile(r"Serving .* on (http://\S+)")
EVE = "another-token-that-is-long-enough"
TOML = """
[server]
port = 0
[people.ana]
roles = ["operator"]
tokens = ["{hash}"]
identities = {{ slack = "U-ANA", discord = "801" }}
[people.eve]
roles = []
tokens = ["{other}"]
[channels.{platform}]
base_url = "{url}"
{channel}
"""
SLACK = 'conversation = "C1"'
DISCORD = f"""
conversation = "77"
application = "{fake_discord.APPLICATION}"
public_key = "{fake_discord.PUBLIC_KEY}"
"""
SECRETS = {
    "SLACK_BOT_TOKEN": fake_slack.TOKEN,
    "SLACK_SIGNING_SECRET": fake_slack.SECRET,
    "DISCORD_BOT_TOKEN": fake_discord.TOKEN,
}


class Served:
    """A server on the namespace of a cluster, with one of the platforms; started again it has the same mirror."""

    def __init__(self, cluster, fake, name: str = "one") -> None:
        from supervisor.core.approvals.people import hash_token

        self.cluster = cluster
        self.mirror = cluster.folder / f"{name}.db"
        self.toml = cluster.folder / "supervisor.toml"
        is_slack = isinstance(fake, fake_slack.FakeSlack)
        self.platform, channel = ("slack", SLACK) if is_slack else ("discord", DISCORD)
        hashes = {"hash": hash_token(TOKEN), "other": hash_token(EVE)}
        self.toml.write_text(TOML.format(platform=self.platform, url=fake.url, channel=channel, **hashes))
        self.process: subprocess.Popen | None = None

    def start(self, *options: str) -> None:
        log = self.cluster.folder / f"{self.mirror.name}-{len(list(self.cluster.folder.iterdir()))}.log"
        given = ["--config", str(self.toml), "--mirror", str(self.mirror), *options]
        self.process, self.url = serve(self.cluster, log, *given, **SECRETS)
        self.log = log

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def lose_mirror(self) -> None:
        for file in self.mirror.parent.glob(f"{self.mirror.name}*"):
            if file.suffix != ".log":
                file.unlink() if file.is_file() else None

    def get(self, path: str):
        """Return the document at a path of the API, or the text of a page."""
        answer = httpx.get(f"{self.url}{path}", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60)
        answer.raise_for_status()
        return answer.json() if path.startswith("/api") else answer.text

    def shows(self, approval: str) -> bool:
        """Whether its mirror says that a card of the approval was posted."""
        found = [each for each in self.get("/api/approvals")["items"] if each["id"] == approval]
        return any(self.platform in each["shown"] for each in found)

    def decide(self, approval: str, token: str = TOKEN) -> int:
        """Approve over HTTP. Return the status."""
        headers = {"authorization": f"Bearer {token}"}
        document = {"decision": "approve"}
        return httpx.post(
            f"{self.url}/api/approvals/{approval}/decision", headers=headers, json=document, timeout=60
        ).status_code

    def press(self, fake, message, code: str) -> None:
        """Let ana press a button of a card, as the platform says so."""
        user, path = ("U-ANA", "requests") if self.platform == "slack" else ("801", "interactions")
        headers, body = fake.press(message, code, user)
        url = f"{self.url}/channels/{self.platform}/{path}"
        httpx.post(url, headers=headers, content=body, timeout=60).raise_for_status()


def serve(cluster, log: Path, *options: str, **env: str) -> tuple[subprocess.Popen, str]:
    """Start a server, and wait until it serves. Return its process, which the cluster kills, and its address."""
    with log.open("wb") as out:
        process = cluster.start("serve", *options, stdout=subprocess.DEVNULL, stderr=out, **env)
    cluster.workers.append(process)
    cluster.until(lambda: SERVING.search(log.read_text()) or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    return process, SERVING.search(log.read_text())[1]


def cards(slack) -> list[dict]:
    return [each for each in slack.messages.get("C1", []) if each["blocks"]]


def has_buttons(message) -> bool:
    return any(block["type"] == "actions" for block in message["blocks"])
