"""The daemon's composition: a store, the agents that are offered, the people who may decide, and the web.

    settings (command line, supervisor.toml) > people, agents, listener > open_supervisor(adopt) > Web

Rules
- Everything that can be wrong with the settings is said before the store is opened: the port is bound, the agents are
  imported.
- Elsewhere than on loopback nobody is served who is not configured.
- The secret that signs cookies lies beside the store, mode 0600: whoever can read it could write the store.
"""

import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from supervisor.abc import Channel
from supervisor.app import open_supervisor
from supervisor.channels.web import make_web
from supervisor.channels.web.server import listen
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.people import People
from supervisor.runtime.agents import load_agents


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a daemon is told."""

    store: Path
    people: People
    agents: Mapping[str, AgentSpec[..., Any]]
    host: str = "127.0.0.1"
    port: int = 8787
    channels: Sequence[Channel] = ()


class Daemon:
    """A daemon that is bound to its address, and runs when it is told to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._listener = listen(settings.host, settings.port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"http://{host}:{self.port}"

    async def run(self) -> None:
        """Serve until cancelled, then leave in good order (R8)."""
        settings = self._settings
        web = make_web(
            people=settings.people,
            agents=settings.agents,
            secret=store_secret(settings.store),
            listener=self._listener,
            hosts=_hosts(settings.host),
            any_address=_is_wildcard(settings.host),
        )
        channels = [*settings.channels, web]
        async with (
            open_supervisor(settings.store, channels=channels, adopt=True, people=settings.people) as supervisor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(supervisor.wait_until_it_dies)
            tasks.start_soon(web.wait_until_it_fails)


def offer(references: Sequence[str]) -> dict[str, AgentSpec[..., Any]]:
    """Return the agents of files and modules by name. Raises UnknownAgent; InvalidInput if two have one name."""
    offered: dict[str, AgentSpec[..., Any]] = {}
    for reference in references:
        for name, spec in load_agents(reference).items():
            if offered.setdefault(name, spec) is not spec:
                raise InvalidInput(
                    f"two agents are named {name}, one of them in {reference}; rename one with @agent(name=...)"
                )
    return offered


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def store_secret(store: Path) -> bytes:
    """Return the secret beside a store, made when it is needed first."""
    path = store.with_name(f"{store.name}.secret")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(made, path)  # whoever was faster: theirs counts
        except FileExistsError:
            pass
        finally:
            made.unlink()
    return path.read_bytes()


def _hosts(host: str) -> list[str]:
    return ["localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host]


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")  # noqa: S104 # asked, not bound
