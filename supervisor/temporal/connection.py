"""Connections to a Temporal server, and what a namespace must have.

Rules
- temporalio runs on asyncio alone. On trio, one error says so.
- Every error of the server becomes one of ours, in one line, at `server_errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import anyio
import sniffio
from google.protobuf.message import Message
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.errordetails.v1 import (
    NamespaceNotFoundFailure,
    NotFoundFailure,
    QueryFailedFailure,
    WorkflowNotReadyFailure,
)
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import (
    InvalidInput,
    NotAuthenticated,
    NotFound,
    ServerError,
    ServerUnavailable,
    SupervisorError,
)
from supervisor.core.store_urls import TemporalStore
from supervisor.system.logs import FactLog
from supervisor.temporal.settings import (
    CA,
    CERTIFICATE,
    CERTIFICATE_KEY,
    KEY,
    KEY_FILE,
    Settings,
    read_key,
    read_settings,
    read_tls,
)
from supervisor.temporal.telemetry import plain_runtime
from supervisor.temporal.wire import AGENT, PENDING, REQUESTER, ROUTE, STATUS

log = FactLog(__name__)

KEY_SECONDS: Final = 30.0
"""Seconds between two looks at the API key and the certificates."""
PAUSE_DAYS: Final = 7.0
"""Days for which a conversation may well pause."""
SHORTER_THAN_PAUSE: Final = (
    "a conversation that has paused for longer than the namespace's retention cannot go on: raise it with temporal "
    "operator namespace update --retention"
)
SHORTER_THAN_EXPIRY: Final = (
    "its approvals may wait for longer than the namespace's retention, after which the claim of a card is forgotten: "
    "raise it with temporal operator namespace update --retention"
)
SOON: Final = timedelta(seconds=10)
"""The time for one request."""
_WANTED: Final = {
    PENDING: (IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST, "KeywordList"),
    ROUTE: (IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, "Keyword"),
}

_USEFUL: Final = AGENT, STATUS, REQUESTER
_KEYWORD: Final = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD

_SILENT: Final = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
_BROKEN: Final = (
    (RPCStatusCode.UNKNOWN, "transport error"),  # reset, closed, or a broken pipe
    (RPCStatusCode.UNKNOWN, "h2 protocol error"),  # closed in the middle of an answer
    (RPCStatusCode.INTERNAL, "h2 protocol error"),  # a server that stops says GOAWAY; a proxy answers something else
)
"""By status, how a message of tonic, the gRPC library of temporalio, begins when a connection has broken. A server
gives these statuses, too, for errors of its own."""
_KEYS: Final = f"set {KEY} or {KEY_FILE} to a key that may use the namespace"
_REFUSALS: Final = ("Unauthenticated", "PermissionDenied")
_ADVICE: Final[Sequence[tuple[str, bool | None, str]]] = (
    ("Unauthenticated", None, f"it does not know who this is; {_KEYS}"),
    ("PermissionDenied", None, f"it does not allow this; {_KEYS}"),
    ("NotValidForName", None, "its certificate is for another name; set TEMPORAL_TLS_SERVER_NAME to that name"),
    ("Expired", None, "its certificate has expired"),
    ("InvalidCertificate", None, f"its certificate is not of the authority in {CA}, or of one that the system knows"),
    ("InvalidContentType", None, "it does not speak TLS; set TEMPORAL_TLS=false if the network is yours"),
    ("InconsistentKeys", None, f"the key in {CERTIFICATE_KEY} is not that of the certificate in {CERTIFICATE}"),
    ("PrivateKeyParseError", None, f"the key in {CERTIFICATE_KEY} cannot be read; it may be encrypted"),
    ("after connection", True, f"it ended the connection; it may want another certificate in {CERTIFICATE}"),
    ("after connection", False, f"it ended the connection; it may speak TLS: set TEMPORAL_TLS=true, or {CA}"),
)
"""What to do, by a sign in the text of temporalio, which has no types for these errors; and whether it is only meant
with TLS, or without."""


async def connect_to_server(store: TemporalStore, runtime: Runtime | None = None) -> Client:
    """Connect to a server, with the settings of the environment (settings.py). `runtime`: that of the metrics of this
    process; None: there are none. Raises InvalidInput for them, and on
    trio; ServerUnavailable; NotAuthenticated; NotFound if it has no such namespace."""
    if sniffio.current_async_library() != "asyncio":
        raise InvalidInput("temporalio runs on asyncio alone: open a store on Temporal with the backend asyncio")
    settings = read_settings(store)
    try:
        client = await _connect(store, settings, settings.tls, runtime or plain_runtime())
    except RuntimeError as error:  # temporalio has no type of its own for it
        raise _explained(store, _first(error), has_tls=settings.tls is not False) from None
    with server_errors(store):
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=store.namespace), timeout=SOON
        )
    return client


async def _connect(store: TemporalStore, settings: Settings, tls: bool | TLSConfig, runtime: Runtime | None) -> Client:
    return await Client.connect(
        store.target,
        namespace=store.namespace,
        tls=tls,
        api_key=settings.api_key,
        rpc_metadata=settings.metadata,
        data_converter=settings.converter,
        connect_timeout=SOON,
        runtime=runtime,
    )


def renew_key(client: Client) -> None:
    """Use the API key as it is now. One that cannot be read is logged, and the one before is used on."""
    try:
        key = read_key()
    except InvalidInput as error:
        log.warning("key.not_read", reason=str(error))
        return
    if key is not None and key != client.api_key:
        client.api_key = key
        log.info("key.renewed")


async def renew_certificates(client: Client, store: TemporalStore) -> bool:
    """Go on over a new connection if the certificates are others now. Return whether they are. Those that cannot be
    read, or do not connect, are logged, and the connection before is used on."""
    service = client.service_client
    try:
        tls = read_tls()
        if tls == service.config.tls:
            return False
        found = await _connect(store, read_settings(store), tls, service.config.runtime)
    except (InvalidInput, RuntimeError) as error:
        log.warning("certificates.not_used", reason=_first(error))
        return False
    service.config.tls = tls
    # temporalio has a new key for a connection, and no new certificate: all of the client's requests go through this.
    vars(service)["_bridge_client"] = vars(found.service_client)["_bridge_client"]
    log.info("certificates.renewed")
    return True


async def keep_credentials(client: Client, store: TemporalStore, renewed: Callable[[], object] = lambda: None) -> None:
    """Read the API key and the certificates again and again, until cancelled: what changes needs no restart. `renewed`
    is called after a new connection."""
    while client.api_key is not None or isinstance(client.service_client.config.tls, TLSConfig):
        await anyio.sleep(KEY_SECONDS)
        renew_key(client)
        if await renew_certificates(client, store):
            renewed()


async def warn_of_retention(client: Client, store: TemporalStore, agents: Iterable[AgentSpec[..., Any]]) -> None:
    """Log what the namespace keeps for too short a time: what has ended is gone after its retention."""
    request = DescribeNamespaceRequest(namespace=store.namespace)
    with server_errors(store):
        found = await client.workflow_service.describe_namespace(request, timeout=SOON)
    days = found.config.workflow_execution_retention_ttl.ToTimedelta() / timedelta(days=1)
    for spec in agents:
        if (spec.approval_expires_in or 0) > days * 86400:
            log.warning("retention.short", agent=spec.name, days=days, reason=SHORTER_THAN_EXPIRY)
    pausing = sorted(spec.name for spec in agents if spec.takes_text)
    if pausing and days < PAUSE_DAYS:
        log.warning("retention.short", agents=", ".join(pausing), days=days, reason=SHORTER_THAN_PAUSE)


async def prepare(client: Client, store: TemporalStore) -> None:
    """Make sure that the namespace has our search attributes, of our types: make them, or raise an error that says how.
    It does without those for people. A server that tells no one what it has, as Temporal Cloud does, is believed."""
    with server_errors(store):
        try:
            listed = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=store.namespace), timeout=SOON
            )
        except RPCError as error:
            if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
                raise
            log.info("attributes.not_listed", reason=error.message)
            return
        has = listed.custom_attributes
        for name, (kind, wanted) in _WANTED.items():
            if (found := has.get(name, kind)) != kind:
                raise ServerError(_of_another_type(store, name, _name_of(found), wanted))
        missing = {name: kind for name, (kind, _) in _WANTED.items() if name not in has}
        useful = dict.fromkeys((name for name in _USEFUL if name not in has), _KEYWORD)
        if useful:
            try:  # all in one request: of two, a server may keep the second one alone
                await _add_attributes(client, store, {**missing, **useful})
                return
            except RPCError as error:
                if is_broken(error):
                    raise
                log.info("attributes.not_made", names=", ".join(useful), reason=error.message)
        try:
            await _add_attributes(client, store, missing)
        except RPCError as error:
            if is_broken(error):
                raise
            raise ServerError(
                f"namespace {store.namespace} lacks a search attribute, and it may not be made here ({error.message}): "
                f"{_creation(store, missing)}"
            ) from None


async def _add_attributes(client: Client, store: TemporalStore, types: Mapping[str, Any]) -> None:
    """Make search attributes. Another worker may be faster."""
    if not types:
        return
    request = AddSearchAttributesRequest(namespace=store.namespace, search_attributes=types)
    try:
        await client.operator_service.add_search_attributes(request, timeout=SOON)
    except RPCError as error:
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise


def lacks_attribute(error: RPCError) -> bool:
    """Return whether a server refuses a search attribute for people: the namespace lacks it, or has another type."""
    return error.status == RPCStatusCode.INVALID_ARGUMENT and any(name in error.message for name in _USEFUL)


def _creation(store: TemporalStore, missing: Iterable[str]) -> str:
    """Return the command that makes search attributes."""
    named = " ".join(f"--name {name} --type {_WANTED[name][1]}" for name in missing)
    return f"temporal operator search-attribute create --namespace {store.namespace} {named}"


def _of_another_type(store: TemporalStore, name: str, found: str, wanted: str) -> str:
    return (
        f"search attribute {name} of namespace {store.namespace} has the type {found}, and {wanted} is needed: use "
        "another namespace; or remove it if nothing needs it, and start a worker: temporal operator search-attribute "
        f"remove --namespace {store.namespace} --name {name}"
    )


def _name_of(kind: int) -> str:
    """Return the name of a type, as Temporal's commands have it: KeywordList."""
    words = IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_")  # type: ignore[arg-type] # any number
    return words.title().replace("_", "")


def is_broken(error: RPCError) -> bool:
    """Return whether there was no connection, or it broke, so that the server itself has not answered."""
    return error.status == RPCStatusCode.UNAVAILABLE or any(
        error.status == status and error.message.startswith(text) for status, text in _BROKEN
    )


def is_no_workflow(error: RPCError) -> bool:
    """Return whether the server says that there is no such workflow in the namespace, which it has."""
    return error.status == RPCStatusCode.NOT_FOUND and _says(error, NotFoundFailure)


def is_not_ready(error: RPCError) -> bool:
    """Return whether a workflow cannot be queried now, whatever other ones do: the workers' code failed to run it."""
    return _says(error, WorkflowNotReadyFailure)


def why_query_failed(error: WorkflowQueryFailedError) -> str:
    """Return the type of the error with which a worker has failed a query; "" if the query itself raised. temporalio's
    error has the text alone. It is raised while the server's answer, which has the type, is handled."""
    answer, failed = error.__context__, QueryFailedFailure()
    has_type = isinstance(answer, RPCError) and any(each.Unpack(failed) for each in answer.grpc_status.details)
    return failed.failure.application_failure_info.type if has_type else ""


def _says(error: RPCError, failure: type[Message]) -> bool:
    """Return whether the server gives this failure with its error: a message may name anything."""
    return any(each.TypeName() == failure.DESCRIPTOR.full_name for each in error.grpc_status.details)


@contextmanager
def server_errors(store: TemporalStore, *, maybe_done: bool = False) -> Iterator[None]:
    """Turn errors of the server into ours. `maybe_done`: whether the request may have had an effect all the same."""
    try:
        yield
    except RPCError as error:
        match error.status:
            case _ if is_broken(error) or error.status in _SILENT:
                text = f"the Temporal server at {store.target} does not answer: {error.message}"
                raise ServerUnavailable(text, maybe_done=maybe_done) from None
            case RPCStatusCode.NOT_FOUND if _says(error, NamespaceNotFoundFailure):
                raise NotFound(
                    f"{store.target} has no namespace {store.namespace}: "
                    f"temporal operator namespace create --namespace {store.namespace}"
                ) from None
            case RPCStatusCode.UNAUTHENTICATED | RPCStatusCode.PERMISSION_DENIED:
                text = f"the Temporal server at {store.target} refuses: {error.message}; {_KEYS}"
                raise NotAuthenticated(text) from None
            case RPCStatusCode.NOT_FOUND:
                raise NotFound(f"not in {store}: {error.message}") from None
            case RPCStatusCode.INVALID_ARGUMENT if any(name in error.message for name in _WANTED):
                raise ServerError(
                    f"namespace {store.namespace} lacks a search attribute ({error.message}): start a worker, which "
                    f"makes what is missing, or make it yourself: {_creation(store, _WANTED)}"
                ) from None
            case _:
                raise ServerError(f"the Temporal server at {store.target} refuses: {error.message}") from None


def _explained(store: TemporalStore, said: str, *, has_tls: bool) -> SupervisorError:
    """Return the error of a connection that failed. `said`: what temporalio says of it."""
    for sign, only_with_tls, advice in _ADVICE:
        if sign in said and only_with_tls in (None, has_tls):
            if sign in _REFUSALS:
                return NotAuthenticated(f"the Temporal server at {store.target} refuses: {advice} ({said})")
            return ServerUnavailable(
                f"no connection to the Temporal server at {store.target}: {advice} ({said})", maybe_done=False
            )
    return ServerUnavailable(f"no Temporal server answers at {store.target}: {said}", maybe_done=False)


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
