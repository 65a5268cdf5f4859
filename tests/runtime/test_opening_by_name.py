"""open_supervisor takes a path, a URL of a store, or a store (core/store_urls.py)."""

import pytest

from supervisor import Context, InvalidInput, NotFound, agent, open_supervisor

pytestmark = pytest.mark.anyio


@agent
async def greet(ctx: Context) -> str:
    return "hello"


async def test_a_path_and_a_url_are_one_store(tmp_path):
    """A space and a percent sign are part of a path, and are escaped in a URL."""
    path = tmp_path / "a %41.db"
    async with open_supervisor(path) as supervisor:
        await (await supervisor.start(greet, session="s")).result()
    for named in (str(path), f"sqlite://{tmp_path}/a%20%2541.db"):
        async with open_supervisor(named, create=False) as supervisor:
            assert supervisor.store.get_session("s") is not None
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [path.name]


async def test_a_store_in_memory_is_a_new_one_each_time():
    """Nothing is written anywhere."""
    for _ in range(2):
        async with open_supervisor("memory:") as supervisor:
            assert (supervisor.store.is_durable, supervisor.store.counts().sessions) == (False, 0)
            await (await supervisor.start(greet, session="s")).result()


async def test_a_text_that_names_no_store_opens_none(tmp_path, monkeypatch):
    """A slip leaves no file with an odd name."""
    monkeypatch.chdir(tmp_path)
    for named in ("sqlite:state.db", "redis://here/0", "https://inbox.example", ""):
        with pytest.raises(InvalidInput):
            async with open_supervisor(named):
                raise AssertionError
    with pytest.raises(NotFound):
        async with open_supervisor(f"sqlite://{tmp_path}/state.db", create=False):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []
