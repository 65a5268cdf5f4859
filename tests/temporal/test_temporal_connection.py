"""Connections to a server that wants TLS, a certificate or a key, and what a namespace must have: what is wrong is
named, and no key is repeated."""

import os
import re

import anyio
import pytest
from fronts import make_authority, make_certificates, refusing_front, tls_front
from temporal_server import find_program, namespace, shared, working
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker
from watching import calls_of

from supervisor import Context, InvalidInput, NotAuthenticated, ServerUnavailable, agent
from supervisor.core.errors import ServerError
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import open_temporal
from supervisor.temporal.connection import connect_to_server, prepare, renew_certificates, renew_key
from supervisor.temporal.settings import read_settings

pytestmark = pytest.mark.anyio
CA, CERTIFICATE, KEY = (f"TEMPORAL_TLS_{each}_PATH" for each in ("SERVER_CA_CERT", "CLIENT_CERT", "CLIENT_KEY"))
SECRET = "s3cr3t-of-ana"  # no key of anything


@agent
async def doubling(ctx: Context, number: int) -> int:
    return 2 * number


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TEMPORAL_", "SUPERVISOR_TEMPORAL_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
async def bounded():
    with anyio.fail_after(120):
        yield


def set_variables(monkeypatch, folder, given: dict[str, str]) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, str(folder / value) if name.endswith(("_PATH", "_FILE")) else value)


async def test_workers_and_clients_use_tls_with_a_certificate_of_their_own(monkeypatch, certificates):
    """An agent runs, over a server that wants a client certificate."""
    plain = await namespace()
    set_variables(monkeypatch, certificates, {CA: "ca.pem", CERTIFICATE: "client.pem", KEY: "client.key"})
    async with tls_front(shared(), certificates, wants_client=True) as target:
        url = plain.replace(shared(), target)
        async with working(url, [doubling]), open_temporal(url) as supervisor:
            assert await (await supervisor.start(doubling, 21)).result() == 42


async def test_a_new_certificate_is_used_without_a_restart(monkeypatch, tmp_path, caplog):
    """A worker goes on over a new connection when the old one is cut off. A pair that does not fit is
    logged, and nothing changes."""
    plain, seen, authority = await namespace(), {}, make_authority(tmp_path)
    async with (
        open_temporal(plain) as supervisor,
        tls_front(shared(), tmp_path, wants_client=True, seen=seen) as target,
    ):
        set_variables(monkeypatch, tmp_path, {CA: "ca.pem", CERTIFICATE: "client.pem", KEY: "client.key"})
        url = plain.replace(shared(), target)
        with calls_of(Worker.__init__, lambda frame: frame.f_locals["self"]) as made:
            async with working(url, [doubling]):
                (worker, _), (before,), key = made, seen, (tmp_path / "client.key").read_bytes()
                authority.make("client")
                new = (tmp_path / "client.key").read_bytes()
                (tmp_path / "client.key").write_bytes(key)
                assert not await renew_certificates(worker.client, read_temporal_url(url))
                assert "certificates.not_used" in caplog.text
                (tmp_path / "client.key").write_bytes(new)
                assert await renew_certificates(worker.client, read_temporal_url(url))
                assert not await renew_certificates(worker.client, read_temporal_url(url))
                for each in made:
                    each.client = worker.client
                for scope in seen[before]:
                    scope.cancel()
                seen[before].clear()
                assert await (await supervisor.start(doubling, 21)).result() == 42
    assert seen[before] == []
    assert len(seen) == 2


FAULTS = {
    "no authority": ({"TEMPORAL_TLS": "true"}, CA),
    "another authority": ({CA: "other/ca.pem"}, CA),
    "another name": ({CA: "ca.pem", "TEMPORAL_TLS_SERVER_NAME": "elsewhere.test"}, "TEMPORAL_TLS_SERVER_NAME"),
    "no certificate": ({CA: "ca.pem"}, CERTIFICATE),
    "another certificate": ({CA: "ca.pem", CERTIFICATE: "other/client.pem", KEY: "other/client.key"}, CERTIFICATE),
    "another key": ({CA: "ca.pem", CERTIFICATE: "client.pem", KEY: "other/client.key"}, KEY),
    "no TLS": ({}, "TEMPORAL_TLS=true"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_connection_that_fails_says_which_variable_is_wrong(monkeypatch, certificates, fault):
    """The server speaks TLS and wants a client certificate."""
    await namespace()
    given, named = FAULTS[fault]
    set_variables(monkeypatch, certificates, given)
    async with tls_front(shared(), certificates, wants_client=True) as target:
        with pytest.raises(ServerUnavailable, match=named):
            await open_temporal(f"temporal://{target}/default").__aenter__()


async def test_a_server_without_tls_is_not_spoken_to(monkeypatch, certificates):
    """Where TLS is wanted."""
    await namespace()
    set_variables(monkeypatch, certificates, {CA: "ca.pem"})
    with pytest.raises(ServerUnavailable, match="TEMPORAL_TLS=false"):
        await open_temporal(f"temporal://{shared()}/default").__aenter__()


REFUSED = {
    "an authority that is not there": ({CA: "nowhere.pem"}, "nowhere.pem"),
    "an authority that is none": ({CA: "client.key"}, "client.key has no certificate"),
    "a certificate without its key": ({CERTIFICATE: "client.pem"}, KEY),
    "a key without its certificate": ({KEY: "client.key"}, CERTIFICATE),
    "a key that is not there": ({CERTIFICATE: "client.pem", KEY: "nowhere.key"}, "nowhere.key"),
    "two keys": ({"TEMPORAL_API_KEY": SECRET, "SUPERVISOR_TEMPORAL_API_KEY_FILE": "key"}, "two keys"),
    "a file of a key that is not there": ({"SUPERVISOR_TEMPORAL_API_KEY_FILE": "nowhere.key"}, "nowhere.key"),
    "a key that is none": ({"TEMPORAL_API_KEY": f"{SECRET}\n{SECRET}"}, "TEMPORAL_API_KEY"),
    "a configuration that is not there": ({"TEMPORAL_CONFIG_FILE": "nowhere.toml"}, "nowhere.toml"),
    "a configuration that is none": ({"TEMPORAL_CONFIG_FILE": "broken.toml"}, "broken.toml"),
    "a profile that is not there": ({"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "x"}, "PROFILE"),
    "a key for another server": ({"TEMPORAL_CONFIG_FILE": "temporal.toml"}, "elsewhere.test:7233"),
    "a codec that is not there": ({"SUPERVISOR_TEMPORAL_CODEC": "nowhere:Codec"}, "nowhere:Codec"),
    "a codec that is none": ({"SUPERVISOR_TEMPORAL_CODEC": "pathlib:Path"}, "PayloadCodec"),
    "a folder that is not there": ({"SUPERVISOR_TEMPORAL_PAYLOADS": "/nowhere/payloads"}, "/nowhere/payloads"),
    "a folder that is relative": ({"SUPERVISOR_TEMPORAL_PAYLOADS": "payloads"}, "absolute"),
}


@pytest.mark.parametrize("fault", REFUSED)
async def test_settings_that_cannot_be_used_are_refused_before_a_connection(monkeypatch, certificates, tmp_path, fault):
    """With the file or the variable, and without the key."""
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).write_bytes((certificates / name).read_bytes())
    (tmp_path / "broken.toml").write_text(f"api_key = {SECRET}")
    (tmp_path / "temporal.toml").write_text(
        f'[profile.default]\naddress = "elsewhere.test:7233"\napi_key = "{SECRET}"\n'
    )
    given, named = REFUSED[fault]
    set_variables(monkeypatch, tmp_path, given)
    with pytest.raises(InvalidInput, match=named) as refused:
        read_settings(read_temporal_url("temporal://127.0.0.1:7233/default"))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("source", ["variable", "file", "profile"])
@pytest.mark.parametrize("status", [16, 7])
async def test_a_key_is_sent_to_its_server_and_shown_nowhere(monkeypatch, tmp_path, status, source):
    """The server does not know it, or does not allow what is asked: one error, which says where a key is set."""
    seen: list[dict[str, str]] = []
    (tmp_path / "key").write_text(f"{SECRET}\n")
    async with refusing_front(status, seen) as target:
        profile = f'[profile.ana]\naddress = "{target}"\napi_key = "{SECRET}"\n'
        (tmp_path / "temporal.toml").write_text(profile)
        given = {
            "variable": {"TEMPORAL_API_KEY": SECRET},
            "file": {"SUPERVISOR_TEMPORAL_API_KEY_FILE": "key"},
            "profile": {"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "ana"},
        }[source]
        set_variables(monkeypatch, tmp_path, {**given, "TEMPORAL_TLS": "false"})
        with pytest.raises(NotAuthenticated, match="TEMPORAL_API_KEY") as refused:
            await open_temporal(f"temporal://{target}/default").__aenter__()
    assert {each.get("authorization") for each in seen} == {f"Bearer {SECRET}"}
    assert SECRET not in str(refused.value)


async def test_a_key_goes_with_tls(monkeypatch):
    """Unless the environment says otherwise; and its settings do not show it."""
    store = read_temporal_url("temporal://127.0.0.1:7233/default")
    monkeypatch.setenv("TEMPORAL_API_KEY", SECRET)
    assert read_settings(store).tls is True
    assert SECRET not in repr(read_settings(store))
    monkeypatch.setenv("TEMPORAL_TLS", "false")
    assert read_settings(store).tls is False
    monkeypatch.delenv("TEMPORAL_API_KEY")
    monkeypatch.delenv("TEMPORAL_TLS")
    assert read_settings(store).tls is False


async def test_a_key_that_changes_is_used_without_a_restart(monkeypatch, tmp_path):
    """A file that is gone for a moment leaves the key as it was."""
    file = tmp_path / "key"
    file.write_text("first-key")
    store = read_temporal_url(await namespace())
    monkeypatch.setenv("SUPERVISOR_TEMPORAL_API_KEY_FILE", str(file))
    monkeypatch.setenv("TEMPORAL_TLS", "false")
    client = await connect_to_server(store)
    for written, used in (("first-key", "first-key"), ("second-key", "second-key"), (None, "second-key")):
        file.unlink() if written is None else file.write_text(written)
        renew_key(client)
        assert client.api_key == used
    await prepare(client, store)


async def run_printed(error: pytest.ExceptionInfo) -> None:
    """Run the command that an error prints."""
    (command,) = re.findall(r"temporal (operator search-attribute .*)", str(error.value))
    await anyio.run_process([find_program(), *command.split(), "--address", shared()], input=b"y\n")


async def test_a_worker_without_the_right_to_make_search_attributes_prints_the_command():
    """Another person runs it, and then the worker finds them."""
    store = read_temporal_url(await namespace())
    client = await connect_to_server(store)

    async def refuse(*_, **__) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    client.operator_service.add_search_attributes = refuse
    with pytest.raises(ServerError, match="unauthorized") as refused:
        await prepare(client, store)
    await run_printed(refused)
    await prepare(client, store)


async def test_a_client_that_comes_before_the_first_worker_prints_the_command():
    """It may not be allowed to make search attributes itself."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        for ask in (supervisor.get_approval("x" * 42), supervisor.start("doubling", 21, session="d")):
            with pytest.raises(ServerError, match="start a worker") as refused:
                await ask
        await run_printed(refused)
        run = await supervisor.start("doubling", 21, session="d")
        async with working(url, [doubling]):
            assert await run.result() == 42


async def test_a_search_attribute_of_another_type_is_named():
    """With both types, and the command that removes it."""
    store = read_temporal_url(await namespace())
    client = await connect_to_server(store)
    kinds = {"SupervisorPending": IndexedValueType.INDEXED_VALUE_TYPE_INT}
    request = AddSearchAttributesRequest(namespace=store.namespace, search_attributes=kinds)
    await client.operator_service.add_search_attributes(request)
    with pytest.raises(ServerError, match=r"SupervisorPending.* type Int, and KeywordList") as refused:
        await prepare(client, store)
    await run_printed(refused)
    await prepare(client, store)
