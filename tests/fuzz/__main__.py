"""The fuzzer: `python -m tests.fuzz --backend trio --seconds 1200 --seed 1`, or FILE... to run kept cases again.

It runs random programs in processes that end in every way (fuzz_programs.py, fuzz_lives.py), and checks what came of
them (fuzz_oracles.py). A case that fails is kept, its folder with the case as JSON; `--shrink FILE` makes it smaller.
Exit code 1: a case failed.
"""

import argparse
import json
import os
import random
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash"), str(HERE.parent)]

from fuzz_cases import Tally, run_case, shrink  # noqa: E402 # the path must be set first
from fuzz_programs import make_case  # noqa: E402
from fuzz_stores import begin_server  # noqa: E402
from fuzz_storms import SECONDS, make_storm, run_storm  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("files", nargs="*", help="cases to run again")
    parser.add_argument(
        "--backend", choices=["asyncio", "trio"], default=None, help="default: both in turn, or a file's"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=None, help="so many cases instead")
    parser.add_argument("--jobs", type=int, default=1, help="so many cases at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the first case; default: by chance")
    parser.add_argument(
        "--times", type=int, default=None, help="how often each file is run, or each try of a shrinking"
    )
    parser.add_argument("--postgres", action="store_true", help="each store is on a PostgreSQL server")
    parser.add_argument(
        "--storms", action="store_true", help="three owners share each store on PostgreSQL; with --postgres each third"
    )
    parser.add_argument("--short", action="store_true", help="storms of a second, each with every fault")
    parser.add_argument("--shrink", action="store_true", help="make the failing cases of the files smaller")
    parser.add_argument("--keep", default="/tmp/fuzz-failures", help="where failing cases are kept")
    asked = parser.parse_args()
    with ExitStack() as stack:
        asked.server = begin_server(stack) if asked.postgres or asked.storms else None
        return _run(asked)


def _run(asked: argparse.Namespace) -> int:
    tally = Tally(Path(asked.keep))
    if asked.shrink:
        for file in asked.files:
            shrink(Path(file), asked.backend, asked.times or 5, asked.seconds)
        return 0
    if asked.files:
        for file in asked.files:
            case = json.loads(Path(file).read_text())
            run = partial(run_storm, server=asked.server) if "faults" in case else run_case
            for backend in [asked.backend] if asked.backend else case.get("backends", ["asyncio", "trio"]):
                for _ in range(asked.times or case.get("times", 1)):
                    tally.add({**case, "backend": backend}, run({**case, "backend": backend}))
    else:
        seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
        print(f"first seed {seed}", flush=True)
        workers = [_fork(tally, asked, seed, first) for first in range(1, asked.jobs)]
        _run_random(tally, asked, seed, 0)
        tally.failures += sum(os.waitpid(worker, 0)[1] != 0 for worker in workers)
    print(tally)
    return 1 if tally.failures else 0


def _fork(tally: Tally, asked: argparse.Namespace, seed: int, first: int) -> int:
    """Run a part of the cases in another process. Return its pid."""
    if pid := os.fork():
        return pid
    _run_random(tally, asked, seed, first)
    print(tally, flush=True)
    os._exit(1 if tally.failures else 0)


def _run_random(tally: Tally, asked: argparse.Namespace, seed: int, first: int) -> None:
    until, number = time.monotonic() + asked.seconds, first
    while number < asked.cases if asked.cases is not None else time.monotonic() < until:
        backend = asked.backend or ("asyncio", "trio")[number % 2]
        if asked.storms and (not asked.postgres or number % 3 == 0):
            storm = make_storm(seed + number, backend, SECONDS / 4 if asked.short else SECONDS)
            tally.add(storm, run_storm(storm, asked.server))
        else:
            case = make_case(seed + number, backend)
            tally.add(case, run_case(case))
        number += asked.jobs


if __name__ == "__main__":
    sys.exit(main())
