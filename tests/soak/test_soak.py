"""Thousands of sub-agents ask, are decided, stall, are cancelled, die with their process and are restarted, at random:
nothing is lost, nothing happens twice, and only the journal grows.

The short test runs with all tests, the long one with `-m soak`.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from supervisor import SqliteStore
from supervisor.core import events as e

WORLD = Path(__file__).with_name("world.py")
LARGEST_LOG = 64 * 2**20


def live(folder: Path, backend: str, seed: int, lives: int, seconds: float, kill_after: float | None) -> list[dict]:
    """Run the world once, and kill it if told to. Return its report."""
    command = [sys.executable, WORLD, folder / "state.db", folder / "effects", backend, seed, lives, seconds]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as world:
        if kill_after is not None:
            time.sleep(kill_after)
            world.kill()
        out, _ = world.communicate(timeout=seconds + 300)
    assert world.returncode == (0 if kill_after is None else -9), out[-2000:]
    return [json.loads(line) for line in out.splitlines() if line.endswith("}")]


def check(folder: Path) -> Counter[str]:
    """Compare the store and the effects. Return how the runs ended."""
    effects = Counter((folder / "effects").read_text().split())
    assert [name for name, count in effects.items() if count > 1] == []
    store = SqliteStore(folder / "state.db", create=False)
    store.open()
    rows = store.rows(0)
    assert store.find_sessions(is_open=True) == []
    assert store.find_approvals() == []
    store.close()
    asked: dict[tuple[str, str], str] = {}
    results: dict[str, str] = {}
    ends: Counter[str] = Counter()
    for row in rows:
        match row.event:
            case e.ToolCallRequested(operation=operation, arguments=arguments):
                asked[row.session, operation] = json.loads(bytes(arguments))["name"]
            case e.ToolCallFinished(operation=operation, kind=kind):
                name = asked[row.session, operation]
                assert name not in results, f"{name} has two results"
                results[name] = kind
            case e.OperationAbandoned(operation=operation) if (row.session, operation) in asked:
                results[asked[row.session, operation]] = "abandoned"
            case e.RunFinished(kind=kind):
                ends[kind] += 1
            case _:
                pass
    assert sorted(results) == sorted(asked.values()), "a call has no result"
    assert {name for name, kind in results.items() if kind == "ok"} <= set(effects)
    assert {name for name, kind in results.items() if kind == "denied"}.isdisjoint(effects)
    return ends


def soak(folder: Path, backend: str, seconds: float, lives: int) -> None:
    """Run with deaths for the first half of the time. In the second half one process shows what grows."""
    chance = random.Random(seconds)
    for life in range(lives):
        live(folder, backend, int(seconds), life, 3600, kill_after=seconds / 2 / lives * chance.uniform(0.6, 1.4))
    said = live(folder, backend, int(seconds), lives, seconds / 2, None)
    ends = check(folder)
    assert ends["succeeded"] > 0
    assert ends["stalled"] > 0
    settled = said[len(said) // 4 : -1]
    assert max(sign["descriptors"] for sign in said) <= settled[0]["descriptors"] + 8
    assert max(sign["log"] for sign in said) <= LARGEST_LOG
    assert said[-1]["resident"] <= 1.5 * settled[0]["resident"] + 20_000


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_short_life_with_two_deaths_in_it_loses_nothing(tmp_path, backend):
    """Two processes are killed at random. The third one goes on, and ends their runs."""
    soak(tmp_path, backend, 4.0, 2)


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_long_life_with_many_deaths_in_it_loses_nothing(tmp_path, backend):
    """It takes five minutes on each backend, with a death every ten seconds in the first half."""
    soak(tmp_path, backend, 300.0, 15)
