"""Names of stores: each means one store, or is refused."""

import pytest

from supervisor import InvalidInput
from supervisor.core.store_urls import read_store_url

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("state.db", "state.db"),
        ("/srv/a b/state.db", "/srv/a b/state.db"),
        ("a%20b?c#d.db", "a%20b?c#d.db"),
        ("c:state.db", "c:state.db"),
        ("./sqlite:state.db", "./sqlite:state.db"),
        ("./a://b", "./a://b"),
        ("memory", "memory"),
        ("sqlite:///srv/a/state.db", "/srv/a/state.db"),
        ("SQLite:///srv/a/state.db", "/srv/a/state.db"),
        ("sqlite:///srv/a b/state.db", "/srv/a b/state.db"),
        ("sqlite:///srv/a%20b/%3F%23%25%2e.db", "/srv/a b/?#%..db"),
        ("sqlite:///srv/%C3%A4/\u00e4.db", "/srv/\u00e4/\u00e4.db"),
        ("sqlite:///srv/%ff.db", "/srv/\udcff.db"),
        ("sqlite:///srv/user@host:1.db", "/srv/user@host:1.db"),
    ],
)
def test_a_file_is_named_by_a_path_or_a_url(text, path):
    """Only a URL has escapes."""
    assert read_store_url(text) == path


def test_a_store_in_memory_has_no_file():
    """Its name is only the scheme."""
    assert read_store_url("memory:") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "\0", "state\0.db"),
        *("sqlite:", "sqlite:state.db", "sqlite:/srv/a.db", "SQLITE:a.db", "sqlite::memory:", ":memory:"),
        *("memory:a", "memory:?x", "memory://", "memory:///", "Memory:", "memory: "),
        *("sqlite://", "sqlite:///", "sqlite://state.db", "sqlite://./state.db", "sqlite://localhost/srv/a.db"),
        *(f"sqlite://ann:{SECRET}@host/srv/a.db", "sqlite://%2Fsrv/a.db"),
        *("sqlite:////srv/a.db", "sqlite:///%2Fsrv/a.db", "sqlite:///srv/a/", "sqlite:///srv/a%2F"),
        *("sqlite:///srv/a.db?mode=ro", "sqlite:///srv/a.db?", "sqlite:///srv/a.db#x", "sqlite:///srv/a.db#"),
        *("sqlite:///srv/%", "sqlite:///srv/%4", "sqlite:///srv/%zz.db", "sqlite:///srv/%00.db"),
        *(f"postgresql://ann:{SECRET}@host/db", "file:///srv/a.db", "sqlite3:///srv/a.db", "x+y.z-1://"),
    ],
)
def test_a_text_that_names_no_store_is_refused(text):
    """It never becomes a file with an odd name, and the error does not repeat what may be a password."""
    with pytest.raises(InvalidInput) as refused:
        read_store_url(text)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["redis://host", "rediss://host/1"])
def test_the_error_for_an_unknown_scheme_lists_the_known_ones(text):
    """The refusal says what is accepted."""
    with pytest.raises(InvalidInput, match=r"sqlite:///.*memory:"):
        read_store_url(text)


@pytest.mark.parametrize("text", ["http://localhost:8787", f"https://ann:{SECRET}@inbox.example/"])
def test_a_server_is_not_taken_for_a_store(text):
    """The refusal says how to reach a server."""
    with pytest.raises(InvalidInput, match=r"open_remote.*--server") as refused:
        read_store_url(text)
    assert SECRET not in str(refused.value)
