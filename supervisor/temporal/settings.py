"""How this process reaches Temporal: TLS, an API key, the folder of large payloads, a codec. The environment says it.

    TEMPORAL_TLS, TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH,
    TEMPORAL_TLS_SERVER_NAME, TEMPORAL_API_KEY, TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE     as in Temporal's own programs
    SUPERVISOR_TEMPORAL_API_KEY_FILE     a file with the key, for systems that give secrets as files
    SUPERVISOR_TEMPORAL_PAYLOADS         a folder, or MODULE:NAME of a temporalio StorageDriver
    SUPERVISOR_TEMPORAL_CODEC            MODULE:NAME of a temporalio PayloadCodec, such as one that encrypts

Rules
- The URL of the store names the server and the namespace. Credentials for another address are not sent to it.
- A profile is read only where a variable names it: a key of a default profile is not sent to any server.
- Everything is checked before a connection is opened. An error names the file or the variable, and never repeats a key.
- Commands that agents run do not inherit these variables (T4).
- JSON is written as UTF-8: temporalio's own converter writes a letter such as "é" as six bytes, and the limits of what
  a server takes (wire.py) count two.
"""

import importlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    AdvancedJSONEncoder,
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadCodec,
    StorageDriver,
)
from temporalio.envconfig import ClientConfigProfile, ClientConfigTLS
from temporalio.service import TLSConfig

from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import TemporalStore
from supervisor.system.withheld import withhold_secret
from supervisor.temporal.payloads import VARIABLE as PAYLOADS, NamedDriver, PayloadFolder, storage_of

KEY: Final = "TEMPORAL_API_KEY"
KEY_FILE: Final = "SUPERVISOR_TEMPORAL_API_KEY_FILE"
CODEC: Final = "SUPERVISOR_TEMPORAL_CODEC"
CA: Final = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"
CERTIFICATE: Final = "TEMPORAL_TLS_CLIENT_CERT_PATH"
CERTIFICATE_KEY: Final = "TEMPORAL_TLS_CLIENT_KEY_PATH"
_PROFILES: Final = ("TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE")


class _JsonInUtf8(JSONPlainPayloadConverter):
    """Writes JSON as temporalio does, but letters as they are. A lone surrogate, which UTF-8 lacks, stays escaped."""

    def to_payload(self, value: Any) -> Payload:
        text = json.dumps(value, cls=AdvancedJSONEncoder, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        data = text.encode("utf-8", "backslashreplace")  # Python escapes a surrogate as JSON does
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)


_CONVERTERS: Final = tuple(
    _JsonInUtf8() if isinstance(each, JSONPlainPayloadConverter) else each
    for each in DefaultPayloadConverter().converters.values()
)


class PayloadsInUtf8(CompositePayloadConverter):
    """temporalio's converter, with our JSON. temporalio makes one for almost each request: they share their parts."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)


class Settings(NamedTuple):
    """What a connection needs besides the address."""

    tls: bool | TLSConfig
    api_key: str | None
    metadata: Mapping[str, str]
    converter: DataConverter

    def __repr__(self) -> str:
        return "Settings(...)"  # it has keys


def read_settings(store: TemporalStore) -> Settings:
    """Read the environment, and the files that it names. Raises InvalidInput."""
    profile = _read_profile()
    key = _read_key(profile)
    has_credentials = key is not None or profile.tls is not None or bool(profile.grpc_meta)
    if has_credentials and profile.address is not None and profile.address.lower() != store.target.lower():
        raise InvalidInput(
            f"the credentials of Temporal in the environment are for {profile.address}, and the store is at "
            f"{store.target}: change TEMPORAL_ADDRESS, the profile, or the store"
        )
    codec = os.environ.get(CODEC)
    return Settings(
        tls=_tls_of(profile, key),
        api_key=key,
        metadata=profile.grpc_meta,
        converter=DataConverter(
            payload_converter_class=PayloadsInUtf8,
            payload_codec=_make(CODEC, codec, PayloadCodec) if codec else None,
            external_storage=storage_of(_find_driver()),
        ),
    )


def read_key() -> str | None:
    """Read the API key alone, as it is now. Raises InvalidInput."""
    return _read_key(_read_profile())


def read_tls() -> bool | TLSConfig:
    """Read the certificates alone, as they are now. Raises InvalidInput."""
    profile = _read_profile()
    return _tls_of(profile, _read_key(profile))


def _tls_of(profile: ClientConfigProfile, key: str | None) -> bool | TLSConfig:
    return key is not None if profile.tls is None else _read_tls(profile.tls)


def _read_profile() -> ClientConfigProfile:
    named = os.environ.get("TEMPORAL_CONFIG_FILE")
    if named:
        try:
            tomllib.loads(Path(named).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"TEMPORAL_CONFIG_FILE: {named} cannot be read: {error.strerror}") from None
        except ValueError:
            raise InvalidInput(f"TEMPORAL_CONFIG_FILE: {named} is not valid TOML") from None
    has_file = any(os.environ.get(each) for each in _PROFILES)
    try:
        return ClientConfigProfile.load(disable_file=not has_file)
    except Exception as error:  # noqa: BLE001 # a private type of temporalio
        what = f"; {' and '.join(_PROFILES)} name it" if has_file else f": {error}"  # a file's text may be repeated
        raise InvalidInput(f"the profile of Temporal cannot be used{what}") from None


def _read_key(profile: ClientConfigProfile) -> str | None:
    file = os.environ.get(KEY_FILE)
    if file and os.environ.get(KEY):
        raise InvalidInput(f"{KEY_FILE} and {KEY} give two keys: set one of them")
    if not file:
        key, source = profile.api_key, KEY
    else:
        key, source = _read(KEY_FILE, Path(file)).decode("latin-1"), file
    if not key:
        if file:
            raise InvalidInput(f"{KEY_FILE}: {file} is empty")
        return None
    key = key.strip()
    withhold_secret(key)
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidInput(f"the API key in {source} is not one: it has a space, a line break or a special character")
    return key


def _read_tls(found: ClientConfigTLS) -> bool | TLSConfig:
    if found.disabled:
        return False
    authority = _read_pem(CA, found.server_root_ca_cert, "CERTIFICATE")
    certificate = _read_pem(CERTIFICATE, found.client_cert, "CERTIFICATE")
    key = _read_pem(CERTIFICATE_KEY, found.client_private_key, "PRIVATE KEY")
    if (certificate is None) != (key is None):
        lacks = CERTIFICATE if certificate is None else CERTIFICATE_KEY
        raise InvalidInput(f"a client certificate and its key go together, and {lacks} is not set")
    return TLSConfig(
        server_root_ca_cert=authority, domain=found.server_name, client_cert=certificate, client_private_key=key
    )


def _read_pem(variable: str, source: Path | str | bytes | None, kind: str) -> bytes | None:
    if source is None:
        return None
    content = _read(variable, source) if isinstance(source, Path) else source
    if isinstance(content, str):
        content = content.encode()
    if f"{kind}-----".encode() not in content:
        where = source if isinstance(source, Path) else "its text"
        raise InvalidInput(f"{variable}: {where} has no {kind.lower()} in PEM form (-----BEGIN ... {kind}-----)")
    return content


def _read(variable: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{variable}: {file} cannot be read: {error.strerror}") from None


def _find_driver() -> StorageDriver | None:
    named = os.environ.get(PAYLOADS)
    if not named:
        return None
    if ":" in named and not named.startswith("/"):
        return NamedDriver(_make(PAYLOADS, named, StorageDriver), named)
    return PayloadFolder(Path(named))


def _make(variable: str, named: str, kind: type[Any]) -> Any:
    """Return what the function or class MODULE:NAME makes."""
    module, _, name = named.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
    except (Exception, SystemExit) as error:  # noqa: BLE001 # a user's module may raise anything
        raise InvalidInput(f"{variable}: {named} cannot be made: {type(error).__name__}: {error}") from None
    if not isinstance(made, kind):
        raise InvalidInput(f"{variable}: {named} makes no {kind.__module__.split('._')[0]}.{kind.__name__}")
    return made
