"""Which tests CI runs: each rule, and of its cases those that show most.

Theory: what the backends do differently is in the runtime, the store and the processes. There a rule is proven on both:
of the cases that a test has on both backends, half run on asyncio and the others on trio, and a test with one such case
runs it on both. A rule of a surface, which meets the event loop by anyio's own functions, holds on both for the same
reason, so CI proves half of these rules on asyncio and the others on trio. Of a test marked `slow`, which takes real
processes and seconds, one case runs. Elsewhere than in CI all run.

Chance decides, by `TESTS_SEED`: an id and a seed always give the same cases. CI's seed is the commit, so that each
change is tested by other ones.
"""

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from random import Random

SURFACES = ("tests/agents/", "tests/channels/", "tests/cli/", "tests/client/", "tests/crossing/", "tests/examples/")
BACKEND = re.compile(r"(?<=[\[-])(asyncio|trio)(?=[\]-])")


def left_out(tests: Mapping[str, bool], seed: str = os.environ.get("TESTS_SEED", "")) -> set[str]:
    """Return the ids of the tests that are proven by another case. `tests`: of each id, whether it is slow."""
    cases, pairs = defaultdict(set), defaultdict(set)
    for test, is_slow in tests.items():
        one, two = (BACKEND.sub(backend, test, count=1) for backend in ("asyncio", "trio"))
        if is_slow:
            cases[test.partition("[")[0]].add(test)
        elif one != two and one in tests and two in tests:
            pairs[test.partition("[")[0]].add((one, two))
    found = set()
    for rule, slow in cases.items():
        found |= slow - {Random(rule + seed).choice(sorted(slow))}
    for rule, each in pairs.items():
        chance = Random(rule + seed)
        turn = chance.randrange(2)
        if rule.startswith(SURFACES):
            found |= {chance.choice(pair) for pair in sorted(each)}
        elif len(each) > 1:
            mixed = chance.sample(sorted(each), len(each))
            found |= {pair[(turn + at) % 2] for at, pair in enumerate(mixed)}
    return found
