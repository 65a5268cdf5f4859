"""Signing out, and revoking a token, end access at once, on the server's side, and for good."""

import json
import signal
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import anyio
import anyio.to_thread
import pytest
from sites import EVERYBODY, ORIGIN, world
from starlette.requests import Request
from test_who_may import log_in

from supervisor.channels.web.auth import Guard
from supervisor.channels.web.revocations import Revocation, Revocations, revocations_of
from supervisor.core.approvals.people import hash_token
from supervisor.core.errors import StoreUnreadable

HASH = hash_token("ana's token")
REVOKED = Revocation(token=HASH, at=datetime.now(UTC), by="olga")


async def sign_out(client):
    return await client.post("/logout", headers={"origin": ORIGIN})


@pytest.mark.anyio
async def test_a_login_that_was_signed_out_is_over_although_its_cookie_was_kept():
    """That login alone: another one of theirs goes on, and so does their token."""
    async with world() as here, here.client() as one, here.client() as other, here.client("olga") as token:
        await log_in(one)
        await log_in(other)
        kept = dict(one.cookies)
        assert (await sign_out(one)).status_code == 303
        assert not one.cookies
        one.cookies.update(kept)
        assert [(await each.get("/api/sessions")).status_code for each in (one, other, token)] == [401, 200, 200]


@pytest.mark.anyio
async def test_a_request_that_arrives_while_its_token_is_revoked_is_refused():
    """Whoever was known when a request began, and is no more when its body is there, decides nothing."""
    async with world() as here, here.client("olga") as client:
        asked = await here.ask()

        async def body():
            here.site.guard.revocations.add(Revocation(token=hash_token("olga"), at=datetime.now(UTC), by="x"))
            yield b'{"decision": "approve"}'

        answer = await client.post(f"/api/approvals/{asked.id}/decision", content=body())
        assert (answer.status_code, (await here.supervisor.get_approval(asked.id)).status) == (401, "pending")


@pytest.mark.anyio
async def test_a_token_is_revoked_although_tools_hold_all_threads_of_the_loop(tmp_path):
    """Forty tools that hang in threads, and more that wait for one: none of them keeps a person from being shut out."""
    let_go, revocations = threading.Event(), Revocations(tmp_path / "revoked")
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(anyio.to_thread.run_sync, let_go.wait)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(30):
            await revocations.add_soon(REVOKED)
        let_go.set()
    assert HASH in (tmp_path / "revoked").read_text()


@contextmanager
def listening(client):
    """Listen to the inbox; yields what returns when the stream has ended."""
    with client.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        yield lambda: list(lines)


def test_a_daemon_that_runs_hears_of_it_at_once_and_the_next_one_knows(daemon, tmp_path):
    """Requests, logins and streams; over a kill."""
    config = tmp_path / "supervisor.toml"
    config.write_text(f'[people.ana]\nroles = ["operator"]\ntokens = ["{HASH}"]\n')
    daemon.start("--config", str(config))
    with daemon.client("ana's token") as token, daemon.client(None) as login, daemon.client() as operator:
        assert (
            login.get("/login", params={"token": "ana's token"}, headers={"sec-fetch-site": "none"}).status_code == 303
        )
        with listening(token) as heard, listening(login) as seen:
            revoke = daemon.command("token", "revoke", HASH, "--config", str(config))
            assert revoke.wait(60) == 0
            heard()
            seen()
        for _ in range(2):
            assert [each.get("/api/sessions").status_code for each in (token, login, operator)] == [401, 401, 200]
            daemon.stop(signal.SIGKILL)
            daemon.start("--config", str(config))


def test_the_command_line_revokes_only_a_known_token(daemon, tmp_path):
    """A token or its hash; not what is cut off, not for a store that is not there, not from inside a call."""
    config = tmp_path / "supervisor.toml"
    config.write_text(f'[people.ana]\ntokens = ["{HASH}"]\n')

    def revoke(*words, **env):
        return daemon.command("token", "revoke", *words, "--config", str(config), **env).wait(60)

    assert revoke(HASH) == 5
    daemon.store.touch()
    assert revoke(HASH[:-1]) == 2
    assert revoke() == 2
    assert revoke(HASH, SUPERVISOR_CALL="call:shell:0#1") == 6
    assert HASH not in Revocations(revocations_of(daemon.store))
    assert revoke("ana's token") == 0
    assert HASH in Revocations(revocations_of(daemon.store))


def test_a_torn_revocation_was_never_acknowledged(tmp_path):
    """Killed while writing: the torn line has no effect, and later lines are read."""
    file = tmp_path / "revoked"
    first, seen = Revocations(file), Revocations(file)
    first.add(REVOKED)
    with file.open("ab") as torn:
        torn.write(b'{"login": "x", "at"')
    assert HASH in seen
    first.add(Revocation(login="nonce", at=REVOKED.at, until=datetime.now(UTC) + timedelta(days=1), by="ana"))
    assert [("nonce" in each, "x" in each) for each in (seen, Revocations(file))] == [(True, False)] * 2
    assert [sorted(json.loads(line)) for line in file.read_text().splitlines()] == [
        ["at", "by", "token"],
        ["at", "by", "login", "until"],
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_unreadable_file_refuses_every_login(tmp_path):
    """It may say who is out (fail closed)."""
    file = tmp_path / "revoked"
    file.write_text("nonsense\n")
    guard = Guard(EVERYBODY, b"s" * 32, None, "x", Revocations(file))
    with pytest.raises(StoreUnreadable):
        guard.identify(Request({"type": "http", "headers": [(b"authorization", b"Bearer olga")]}))
