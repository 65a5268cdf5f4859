"""Run cases, keep those that fail, and make them smaller."""

import collections
import copy
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_lives
import fuzz_stores
from fuzz_oracles import Story, after_life, at_the_end
from fuzz_programs import parts

KNOWN: dict[str, str] = {}
"""Problems that are known and not mended yet, by their first word: counted, and no failure. Empty, if all is well."""


PLAIN = {"others": [], "disk": [], "person": None, "passivate_after": 60.0, "clock": None, "full": None}
"""A life in which nothing special happens."""


class Found:
    """The problems of one case."""

    def __init__(self, problems: list[str], lives: int, folder: Path | None) -> None:
        self.problems = problems
        self.lives = lives
        self.folder = folder

    @property
    def kinds(self) -> set[str]:
        return {problem.partition(":")[0] for problem in self.problems}


def run_case(case: dict[str, Any], *, keep: bool = True) -> Found:
    """Live all lives of a case, and one more that ends everything."""
    memory = Path("/dev/shm")  # a case writes as much as its process wants
    folder = Path(tempfile.mkdtemp(prefix="fuzz", dir=memory if memory.is_dir() else None))
    fuzz_stores.prepare(str(folder))
    lives = [*case["lives"], fuzz_lives.final(case)]
    whole = {**case, "lives": lives}
    codes: dict[int, int] = {}
    problems: list[str] = []
    number = 0
    for number, life in enumerate(lives):
        ended = fuzz_lives.live(whole, number, str(folder))
        codes |= ended
        if life.get("full"):  # what it has begun is lost as if it had been killed
            codes[next(iter(ended))] = -9
        if not fuzz_stores.exists(str(folder)):
            continue
        story = Story(str(folder), case, codes)
        problems += after_life(story, life, ended)
        if number == len(lives) - 1 and not problems:
            problems += at_the_end(story)
        if problems:
            break
    if not problems or not keep:
        shutil.rmtree(folder)
    return Found(problems, number + 1, folder if problems and keep else None)


class Tally:
    """The cases that ran, and those that failed."""

    def __init__(self, keep: Path) -> None:
        self._keep = keep
        self.cases: collections.Counter[str] = collections.Counter()
        self.lives = 0
        self.failures = 0
        self.known: collections.Counter[str] = collections.Counter()

    def add(self, case: dict[str, Any], found: Found) -> None:
        self.cases[case["backend"]] += 1
        self.lives += found.lives
        if not found.problems:
            return
        if found.kinds <= KNOWN.keys():
            self.known.update(found.kinds)
        else:
            self.failures += 1
        self._keep.mkdir(parents=True, exist_ok=True)
        where = self._keep / f"{case['backend']}-{case['seed']}-{time.time_ns() % 10**6}"
        assert found.folder is not None
        shutil.move(found.folder, where)
        (where / "case.json").write_text(json.dumps({**case, "problems": found.problems}, indent=1))
        print(f"FAILS after {sum(self.cases.values())} cases: {where}/case.json")
        for problem in found.problems[:5]:
            print(f"    {problem[:300]}")
        if log := (where / "log").read_text().strip():
            print("    " + "\n    ".join(log.splitlines()[-3:]), flush=True)

    def __str__(self) -> str:
        return f"{dict(self.cases)} cases, {self.lives} lives, {self.failures} failed, known {dict(self.known)}"


# -- shrinking ---------------------------------------------------------------------------------------------------------


def shrink(file: Path, backend: str | None, times: int, seconds: float) -> None:
    """Make a failing case smaller, as long as it fails alike in one of so many runs. Write it next to the file."""
    case = json.loads(file.read_text())
    case = {**case, "backend": backend or case["backend"]}
    kinds = {problem.partition(":")[0] for problem in case.pop("problems", [])}
    until = time.monotonic() + seconds
    out = file.with_suffix(".small.json")

    def fails(smaller: dict[str, Any]) -> bool:
        found = (run_case(smaller, keep=False) for _ in range(times))
        return any(each.kinds & kinds if kinds else each.kinds for each in found)

    if not fails(case):
        print(f"{file}: did not fail in {times} runs")
        return
    is_smaller = True
    while is_smaller and time.monotonic() < until:
        is_smaller = False
        for smaller in _smaller(case):
            if time.monotonic() > until:
                break
            if fails(smaller):
                case, is_smaller = smaller, True
                out.write_text(json.dumps(case, indent=1))
                print(f"{len(json.dumps(case))} characters, {len(case['lives'])} lives", flush=True)
                break
    out.write_text(json.dumps(case, indent=1))
    print(f"{out}: {json.dumps(case)}")


def _smaller(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield smaller cases, those with the largest parts removed first."""
    for number in range(len(case["lives"])):
        yield {**case, "lives": case["lives"][:number] + case["lives"][number + 1 :]}
    for program in _smaller_programs(case["program"]):
        if program:
            yield {**case, "program": program}
    for number, life in enumerate(case["lives"]):
        for key, value in PLAIN.items():
            if life.get(key) != value:
                lives = copy.deepcopy(case["lives"])
                lives[number][key] = value
                yield {**case, "lives": lives}
    for key in ("budget", "schedule", "allows", "limits", "per_minute"):
        if case.get(key):
            yield {name: value for name, value in case.items() if name != key}


def _smaller_programs(ops: list[Any]) -> Iterator[list[Any]]:
    for place in range(len(ops)):
        yield ops[:place] + ops[place + 1 :]
    for place, op in enumerate(ops):
        for part in parts(op):
            if op["op"] != "child" and part:
                yield [*ops[:place], *part, *ops[place + 1 :]]
        for changed in _smaller_ops(op):
            yield [*ops[:place], changed, *ops[place + 1 :]]


def _smaller_ops(op: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("then", "beside", "failures"):
        if op.get(key):
            yield {name: value for name, value in op.items() if name != key}
    for key in ("body", "cleanup", "beside", "program"):
        for smaller in _smaller_programs(op.get(key, [])):
            if smaller:
                yield {**op, key: smaller}
    for number, branch in enumerate(op.get("branches", [])):
        if len(op["branches"]) > 2:
            yield {**op, "branches": op["branches"][:number] + op["branches"][number + 1 :]}
        for smaller in _smaller_programs(branch):
            if smaller:
                yield {**op, "branches": [*op["branches"][:number], smaller, *op["branches"][number + 1 :]]}
