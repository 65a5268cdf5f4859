"""`python -m benchmarks [NAME...] [--json] [--smoke] [--peers] [--plot FILE]`: run the named benchmarks, or all.

Every benchmark uses the public API, on asyncio and on trio. It prints the compared sides, the medians and their spread,
the ratio, and the durability of both sides. `--smoke` runs everything with small numbers, so that its figures mean
nothing. `--peers` adds other programs, each in a virtual environment that is made for it.
"""

import argparse
import importlib
import json
import sys
import time
import traceback
from typing import Any

from benchmarks.measure import machine

NAMES = (
    "decision",
    "lag",
    "rates",
    "cycles",
    "heartbeat",
    "watching",
    "reports",
    "operations",
    "coding_agents",
    "memory",
    "starting",
    "months",
    "frozen",
    "trees",
    "growth",
    "commands",
    "pages",
    "repair",
    "budgets",
    "questions",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(NAMES)}, peers, curves, frameworks, temporal, postgres",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, on stdout")
    parser.add_argument(
        "--smoke", action="store_true", help="run everything with small numbers, in seconds, to see whether it works"
    )
    parser.add_argument("--peers", action="store_true", help="also measure other programs")
    parser.add_argument("--plot", metavar="FILE", help="measure the scale curves, and draw them")
    for name, what in (("children", "sub-agents"), ("requests", "the budget"), ("kill", "how often it is killed")):
        parser.add_argument(f"--{name}", type=int, help=f"of budgets: {what}")
    options = parser.parse_args()
    names = options.names or [*NAMES, *(["peers"] if options.peers else []), *(["curves"] if options.plot else [])]
    out, sys.stdout = sys.stdout, sys.stderr if options.json else sys.stdout
    results: dict[str, Any] = {"machine": machine(), "smoke": options.smoke}
    print(" ".join(f"{key}={value}" for key, value in results["machine"].items()))
    failed = 0
    for name in names:
        begun = time.monotonic()
        try:
            module = importlib.import_module(f"benchmarks.{name}")
            run = getattr(module, "run_with_peers", module.run) if options.peers else module.run
            more = {each: given for each in getattr(module, "NUMBERS", ()) if (given := getattr(options, each))}
            results[name] = run(options.smoke, **more)
        except Exception:  # noqa: BLE001 # one that fails is reported, and the others are measured
            failed += 1
            results[name] = {"failed": traceback.format_exc()}
            traceback.print_exc()
        print(f"  [{name}: {time.monotonic() - begun:.1f} s]", flush=True)
    if options.plot:
        from benchmarks.curves import draw

        draw(results["curves"], results["machine"], options.plot)
    if options.json:
        json.dump(results, out, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
