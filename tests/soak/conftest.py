"""The soak runs by hand: `-m soak`."""


def pytest_collection_modifyitems(config, items):
    if "soak" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
