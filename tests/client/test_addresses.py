"""A token travels only where it is safe: the address decides."""

import pytest

from supervisor.client.addresses import Address, read_address
from supervisor.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "url", "uses_proxies"),
    [
        ("https://host", "https://host", True),
        ("HTTPS://Host:8443/at/here/", "https://host:8443/at/here", True),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787", False),
        ("http://127.8.8.8/", "http://127.8.8.8", False),
        ("http://localhost:8787", "http://localhost:8787", False),
        ("http://[::1]:8787", "http://[::1]:8787", False),
        ("https://127.0.0.1", "https://127.0.0.1", False),
    ],
)
def test_https_and_http_to_this_machine_are_taken(text, url, uses_proxies):
    """The environment's proxies are for https to other machines only."""
    assert read_address(text) == Address(url, uses_proxies)


@pytest.mark.parametrize("host", ["host", "10.0.0.1", "localhost.example", "127.0.0.1.example", "[::2]", "0.0.0.0"])
def test_http_to_another_machine_has_to_be_allowed(host):
    """It shows the token to everyone on the way; no proxy is used there, either."""
    with pytest.raises(InvalidInput):
        read_address(f"http://{host}")
    assert read_address(f"http://{host}", allow_http=True) == Address(f"http://{host}", False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:8787", "ftp://host", "https://", "https:///path", "https://host:99999", "https://host:x"),
        *("https://u:hidden@host", "https://hidden@host", "https://host?token=hidden", "https://host#hidden"),
        *("https://host\n", "https://ho st", "https://[::1", "https://host\\@hidden", "https://hö", "file:///x"),
    ],
)
@pytest.mark.parametrize("allow_http", [False, True])
def test_any_other_address_is_refused_and_not_repeated(text, allow_http):
    """A slip may hold a password, and an error goes to logs."""
    with pytest.raises(InvalidInput) as refused:
        read_address(text, allow_http=allow_http)
    assert "hidden" not in str(refused.value)
