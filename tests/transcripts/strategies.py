"""Sessions that hypothesis generates, and a simple count of the dangling calls in them."""

import json
from typing import NamedTuple

from hypothesis import strategies as st

IDS = st.sampled_from(["c1", "c2", "c3"])
CALL = st.tuples(IDS, st.sampled_from([True, True, True, False]))
STOPS = st.sampled_from(["toolUse"] * 4 + ["error", "aborted"])
STEP = st.one_of(
    st.tuples(st.just("user")),
    st.tuples(st.just("label")),
    st.tuples(st.just("assistant"), st.lists(CALL, max_size=3), STOPS),
    st.tuples(st.just("assistant"), st.lists(CALL, min_size=1, max_size=3), st.just("toolUse")),
    st.tuples(st.just("result"), IDS),
    st.tuples(st.just("result"), IDS),
)
STEPS = st.lists(STEP, max_size=14)
JUNK = st.sampled_from([b"", b"   ", b"\0\0", b'{"type":"mess', b'{"type":"label"}{"type":'])


class Made(NamedTuple):
    data: bytes
    steps: list  # of the active conversation, in order


def pi_message(step):
    """Return the message of a step; None if the step is not a message."""
    if step[0] == "user":
        return {"role": "user", "content": "words", "timestamp": 1}
    if step[0] == "result":
        return {"role": "toolResult", "toolCallId": step[1], "toolName": "bash", "content": [], "isError": False}
    if step[0] == "assistant":
        calls = [
            {"type": "toolCall", "id": own, "name": "bash"} | ({"arguments": {}} if whole else {"partialJson": "{"})
            for own, whole in step[1]
        ]
        return {"role": "assistant", "content": calls, "stopReason": step[2]}
    return None


@st.composite
def pi_trees(draw):
    """A pi v3 file with branches and junk between its lines; the active conversation ends at its last entry."""
    lines = [b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/nowhere"}']
    paths = {None: []}
    last = None
    for number, step in enumerate(draw(STEPS)):
        own = f"{number:08x}"
        parent = last if draw(st.integers(0, 5)) else draw(st.sampled_from(sorted(paths, key=str)))
        message = pi_message(step)
        entry = {"type": "message", "message": message} if message else {"type": "label", "label": "x"}
        lines.append(json.dumps(entry | {"id": own, "parentId": parent}).encode())
        paths[own] = [*paths[parent], step]
        last = own
        if not draw(st.integers(0, 6)):
            lines.append(draw(JUNK))
    end = draw(st.sampled_from([b"\n", b"", b'\n{"type":"mes']))
    return Made(b"\n".join(lines) + end, paths[last])


@st.composite
def pi_lists(draw):
    """A pi v1 file, with compactions that name an entry by its number."""
    lines = [b'{"type":"session","id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/nowhere"}']
    steps = draw(STEPS)
    readable = 1
    for step in steps:
        message = pi_message(step)
        entry = {"type": "message", "message": message} if message else {"type": "model_change", "modelId": "m"}
        lines.append(json.dumps(entry).encode())
        readable += 1
        if not draw(st.integers(0, 5)):
            named = draw(st.integers(1, readable - 1))
            lines.append(b'{"type":"compaction", "firstKeptEntryIndex": %d}' % named)
            readable += 1
        if not draw(st.integers(0, 6)):
            lines.append(b'{"torn')
    return Made(b"\n".join(lines) + b"\n", steps)


@st.composite
def codex_rollouts(draw):
    """A Codex rollout, with or without ordinals."""
    steps = draw(STEPS)
    items = []
    for step in steps:
        if step[0] == "assistant":
            items += [
                {"type": "function_call", "call_id": own, "name": "shell", "arguments": "{}"} for own, whole in step[1]
            ]
        elif step[0] == "result":
            items.append({"type": "function_call_output", "call_id": step[1], "output": "ok"})
        else:
            items.append({"type": "message", "role": "user", "content": []})
    entries = [{"type": "session_meta", "payload": {"id": "s", "cwd": "/nowhere"}}]
    entries += [{"type": "response_item", "payload": item} for item in items]
    if draw(st.booleans()):
        entries = [entry | {"ordinal": number} for number, entry in enumerate(entries)]
    return Made(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries), steps)


@st.composite
def claude_sessions(draw):
    """A Claude Code file: replies over several lines, results under their own calls or written before them, branches;
    every id is unique."""
    lines, calls, tips = [], [], []
    clock = 0

    def line(kind, own, parent, message):
        nonlocal clock
        clock += 1
        entry = {"type": kind, "uuid": own, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        entry |= {"timestamp": f"2026-01-02T03:04:05.{clock:03d}Z", "cwd": "/nowhere", "message": message}
        lines.append(json.dumps(entry).encode())
        tips.append(own)
        return own

    tip = line("user", "u", None, {"role": "user", "content": "words"})
    for reply in range(draw(st.integers(0, 5))):
        made = []
        for block in range(draw(st.integers(1, 3))):
            own = f"a{reply}.{block}"
            content = [{"type": "tool_use", "id": f"t{own}", "name": "Bash", "input": {}}]
            tip = line("assistant", own, tip, {"id": f"m{reply}", "role": "assistant", "content": content})
            made.append(own)
        answered = [own for own in made if draw(st.booleans())]
        for own in answered:
            result = {"type": "tool_result", "tool_use_id": f"t{own}", "content": "ok"}
            tip = line("user", f"r{own}", own, {"role": "user", "content": [result]})
            if not draw(st.integers(0, 3)):
                lines.insert(
                    max(at for at, made in enumerate(lines) if f'"uuid": "{own}"' in made.decode()), lines.pop()
                )
        if draw(st.booleans()):
            tip = line("user", f"u{reply}", tip, {"role": "user", "content": "words"})
        calls.append(len(made) - len(answered))
    return Made(b"\n".join(lines) + b"\n", calls)


def dangling_in_frames(steps):
    """Count the calls without a result between their message and the assistant's next one."""
    dangling, frame = 0, []
    for step in [*steps, ("assistant", [], "toolUse")]:
        if step[0] == "assistant" and step[2] == "toolUse":
            dangling += len(frame)
            frame = [own for own, whole in step[1] if whole]
        elif step[0] == "result" and step[1] in frame:
            frame.remove(step[1])
    return dangling


def dangling_anywhere(steps):
    """Count the calls without a result after them; a result before the only call with its id is that call's."""
    waiting, early = [], set()
    calls = [own for step in steps if step[0] == "assistant" for own, _ in step[1]]
    for step in steps:
        if step[0] == "assistant":
            waiting += [own for own, _ in step[1]]
        elif step[0] == "result" and step[1] in waiting:
            waiting.remove(step[1])
        elif step[0] == "result":
            early.add(step[1])
    return sum(not (own in early and calls.count(own) == 1) for own in waiting)
