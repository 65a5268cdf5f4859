"""How fast is a scan for dangling calls, against reading the same files with the fastest JSON decoder in Python?

Two sides run in turn (A B A B ...). A reads each file line by line and decodes every line with `msgspec.json`. B judges
the same files as `supervisor repair` does. The ratio is B's speed over A's; the target is 0.5. Each side is one thread
that never waits, so CPU time is measured, which a shared machine disturbs less. Then the memory for judging one file in
a warm process is compared with its bound: the longest line and 200 bytes a line.
Durability: none, nothing is written. The files are synthetic; with SUPERVISOR_CORPUS set, the real session is measured,
too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

TARGET = 0.5
_PEAK = """
import sys, tracemalloc
from pathlib import Path
from supervisor.transcripts.session import read_session
read_session(Path(sys.argv[1]))
tracemalloc.start()
session = read_session(Path(sys.argv[2]))
print(tracemalloc.get_traced_memory()[1], len(session.index))
"""


def run(smoke: bool) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    figures: dict[str, Any] = {}
    repetitions = 5 if smoke else 15
    with tempfile.TemporaryDirectory() as folder:
        files = _made_files(Path(folder), turns=1_000 if smoke else 20_000)
        corpus = os.environ.get("SUPERVISOR_CORPUS")
        if corpus:
            files["pi v1, real"] = Path(corpus) / "pi-large-session.jsonl"
        for name, path in files.items():
            figures[name] = _speed(name, path, repetitions) | _memory(path, files["pi v3"])
    return figures


def _speed(name: str, path: Path, repetitions: int) -> dict[str, float]:
    from supervisor.transcripts.session import read_session

    decode = msgspec.json.Decoder().decode

    def decode_every_line() -> None:
        with path.open("rb") as file:
            for line in file:
                decode(line)

    plain, ours = _interleaved((decode_every_line, lambda: read_session(path)), repetitions)
    size = path.stat().st_size
    ratio = statistics.median(plain) / statistics.median(ours)
    print(f"{name}: {size / 1e6:.1f} MB")
    for label, times in (("msgspec.json line by line", plain), ("supervisor repair's scan", ours)):
        low, middle, high = min(times), statistics.median(times), max(times)
        print(
            f"  {label:26} median {middle * 1e3:8.2f} ms  ({low * 1e3:.2f} to {high * 1e3:.2f}), "
            f"{size / middle / 1e6:.0f} MB/s"
        )
    print(f"  ratio {ratio:.2f} of its speed, target {TARGET} {'reached' if ratio >= TARGET else 'MISSED'}")
    return {"plain": statistics.median(plain), "ours": statistics.median(ours), "ratio": ratio}


def _interleaved(sides: Iterable[Callable[[], object]], repetitions: int) -> list[list[float]]:
    measured: list[tuple[Callable[[], object], list[float]]] = [(side, []) for side in sides]
    for side, _ in measured:
        side()  # the page cache is warm for both
    for _ in range(repetitions):
        for side, times in measured:
            begun = time.process_time()
            side()
            times.append(time.process_time() - begun)
    return [times for _, times in measured]


def _memory(path: Path, warm: Path) -> dict[str, float]:
    longest = max(map(len, path.open("rb")))
    said = subprocess.run([sys.executable, "-c", _PEAK, warm, path], capture_output=True, text=True, check=True)
    peak, lines = map(int, said.stdout.split())
    per_line = (peak - longest) / lines
    bound = "within" if per_line <= 200 else "BEYOND"
    print(
        f"  memory: longest line {longest} B + {per_line:.0f} B for each of {lines} lines, {bound} the bound of 200 B"
    )
    return {"per_line": per_line, "lines": lines, "longest": longest}


def _made_files(folder: Path, turns: int) -> dict[str, Path]:
    makers = {"pi v3": _pi, "Claude Code": _claude_code, "Codex": _codex}
    files = {}
    for name, make in makers.items():
        files[name] = folder / f"{name}.jsonl"
        with files[name].open("w") as file:
            for entry in make(turns):
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")
    return files


def _text(number: int) -> str:
    return "word \u00e9\n" * (10 + number * 37 % 120)


def _pi(turns: int) -> Iterable[dict[str, Any]]:
    yield {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/nowhere"}
    for number in range(turns):
        call = {
            "type": "toolCall",
            "id": f"toolu_{number:024x}",
            "name": "bash",
            "arguments": {"command": _text(number)},
        }
        said = {"type": "text", "text": _text(number)}
        messages = [
            {"role": "assistant", "content": [said, call], "usage": {"input": 1, "output": 2}, "stopReason": "toolUse"},
            {"role": "toolResult", "toolCallId": call["id"], "content": [said], "isError": False},
        ]
        for at, message in enumerate(messages):
            own = number * 2 + at + 1
            yield {"type": "message", "id": f"{own:08x}", "parentId": f"{own - 1:08x}", "message": message}


def _claude_code(turns: int) -> Iterable[dict[str, Any]]:
    common = {"sessionId": "s", "cwd": "/nowhere", "version": "2.1.144", "isSidechain": False, "userType": "external"}
    parent = None
    for number in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{number:024x}", "name": "Bash", "input": {"command": _text(number)}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": _text(number)}
        for kind, block in (("assistant", use), ("user", result)):
            own = f"00000000-0000-4000-8000-{number * 2 + (kind == 'user'):012x}"
            message = {"role": kind, "id": f"msg_{number}", "content": [block]}
            stamp = f"2026-01-02T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            yield {"type": kind, "uuid": own, "parentUuid": parent, **common, "timestamp": stamp, "message": message}
            parent = own


def _codex(turns: int) -> Iterable[dict[str, Any]]:
    yield {"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": {"id": "s", "cwd": "/nowhere"}}
    for number in range(turns):
        call_id = f"call_{number:024x}"
        call = {
            "type": "function_call",
            "name": "shell",
            "arguments": json.dumps({"c": _text(number)}),
            "call_id": call_id,
        }
        output = {"type": "function_call_output", "call_id": call_id, "output": _text(number)}
        for payload in (call, output):
            yield {"timestamp": "2026-01-02T03:04:05.000Z", "type": "response_item", "payload": payload}


if __name__ == "__main__":
    run("--smoke" in sys.argv)
