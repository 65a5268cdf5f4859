"""Names of stores: each means one store, or is refused."""

import pytest

from supervisor import InvalidInput
from supervisor.core.store_urls import has_password, read_store_url, split_schema, without_password

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
        *(f" postgresql://ada:{SECRET}@host/db", f"postgresql:/ada:{SECRET}@host/db", f"postgres:ada:{SECRET}@host"),
        *(f'"postgresql://ada:{SECRET}@host/db"', f"host=h user=ada password={SECRET}", f"h password = {SECRET}"),
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


@pytest.mark.parametrize(
    "text",
    [
        *(f"postgresql://ada:{SECRET}{sign}x@host/db" for sign in "/@?#[:"),
        *("postgresql://ada:12?x=y@host/db", "postgresql://ada:1/2@host/db", f"postgresql://host:{SECRET}/db"),
        *(f"postgresql://host/db;password={SECRET}", f"postgresql://host/db#password={SECRET}"),
        *("postgresql://host/db?x", "postgresql://host/a b", "postgresql:/host/db"),
    ],
)
def test_a_url_that_libpq_may_read_in_another_way_is_refused(text):
    """A password with a / would be the name of a database, which is shown. The error does not repeat it."""
    for read in (has_password, without_password, split_schema):
        with pytest.raises(InvalidInput, match="write @ as %40") as refused:
            read(text)
        assert SECRET not in f"{refused.value!r}{refused.value.__cause__!r}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://ada:{SECRET}@host/db?schema=s", "postgresql://ada@host/db?schema=s"),
        (f"postgres://ada:{SECRET}%40%2F@[::1]:5432/db", "postgres://ada@[::1]:5432/db"),
        (f"postgresql://one:1,two:2/db?password={SECRET}&a=b", "postgresql://one:1,two:2/db?a=b"),
        (f"postgresql://host/db?pass%77ord={SECRET}&PASSWORD=x", "postgresql://host/db"),
        (f"postgresql:///db?host=/run/pg&sslpassword={SECRET}", "postgresql:///db?host=/run/pg"),
    ],
)
def test_a_url_is_shown_without_its_password(text, shown):
    """However the password is written."""
    assert has_password(text)
    assert without_password(text) == shown
    assert not has_password(shown)


def test_the_other_parameters_of_a_url_reach_libpq_as_they_are_written():
    """A + is a plus, and not a space: the password would be another one."""
    url = "postgresql://ada@host/db?password=a+b%20c&schema=s&passfile=/srv/a%40b"
    assert split_schema(url) == ("postgresql://ada@host/db?password=a+b%20c&passfile=/srv/a%40b", "s")
