"""The suite of all Supervisors runs over Temporal, too: on asyncio alone, as temporalio does."""


def pytest_collection_modifyitems(items):
    for item in list(items):
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if (given.get("kind"), given.get("anyio_backend")) == ("temporal", "trio"):
            items.remove(item)
