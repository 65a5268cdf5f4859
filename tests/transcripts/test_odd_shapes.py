"""A line that is JSON and that its format does not understand is never skipped: it could be the missing result."""

import copy
import itertools
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from test_corpus import CORPUS, FOUND

from supervisor.transcripts import claude_code, codex, pi_messages
from supervisor.transcripts.session import RefusedError, read_session

OF_EACH_TYPE = {type(None): None, bool: True, int: 7, str: "x", list: [], dict: {}}
MODELLED = {
    field
    for module in (claude_code, codex, pi_messages)
    for struct in vars(module).values()
    for field in getattr(struct, "__struct_fields__", ())
}


def is_written(key, was, by):
    """Return whether makers write that, too: a text without blocks, an id where there was none, no replacement."""
    return (key, by) in (("content", "x"), ("replacement", None)) or (key == "call_id" and was is None)


def places(value, path=()):
    """Yield the path to each field that a format reads, however deep, and its value."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key in MODELLED:
                yield (*path, key), inner
            yield from places(inner, (*path, key))


def replaced(entry, path, by):
    changed = copy.deepcopy(entry)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = by
    return changed


def odd_files(path):
    """Yield the file with one field of one line replaced by a value of another type, for each field."""
    lines = path.read_bytes().split(b"\n")
    for at, line in enumerate(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        for place, was in places(entry):
            for kind, by in OF_EACH_TYPE.items():
                if kind is not type(was) and not is_written(place[-1], was, by):
                    odd = json.dumps(replaced(entry, place, by)).encode()
                    yield (at, place, by), b"\n".join([*lines[:at], odd, *lines[at + 1 :]])


def dangling(path):
    try:
        return read_session(path).dangling
    except RefusedError:
        return 0


@pytest.mark.parametrize("name", FOUND)
def test_a_field_of_another_type_never_adds_a_result(name, tmp_path):
    """For any field of any line, the file is refused, or no more calls dangle than without that line."""
    path = Path(shutil.copy(CORPUS / f"{name}.jsonl", tmp_path))
    most = dangling(path)
    grown = []
    for what, data in odd_files(path):
        path.write_bytes(data)
        if dangling(path) > most:
            grown.append(what)
    assert grown == []


CLAUDE, PI = "claude_code/one-reply-over-several-lines", "pi_v3/dangling-in-the-middle"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        *itertools.product((CLAUDE, PI), ("null", "[1]", '"text"', '{"no":"type"}')),
        (CLAUDE, '{"type":"user"}'),
        (PI, '{"type":"message"}'),
    ],
)
def test_a_file_with_a_line_of_unknown_shape_is_refused_and_the_line_named(name, line, session, mend):
    """Its maker's program may understand the line."""
    path = session(name)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, line.encode() + b"\n", *rest]))
    report = mend(path)
    assert report.state == "refused"
    assert "line 2" in report.reason


@pytest.mark.parametrize(
    "odd", ['"ordinal":46,"payload":[]', '"ordinal":46,"payload":"x"', '"ordinal":46,"payload":{"call_id":5}']
)
def test_a_line_of_a_rollout_counts_whatever_its_payload(odd, session, mend, read):
    """Only messages and calls are read from a rollout; the next ordinal follows the highest of all lines."""
    path = session("codex/lines-with-ordinals")
    with path.open("a") as file:
        file.write(f'{{"type":"world_state",{odd}}}\n')
    assert mend(path).state == "repaired"
    assert read(path)[-1]["ordinal"] == 47


@pytest.mark.parametrize("ordinal", ['"46"', "2.0", "null", "-1", "18446744073709551615", "1e400", "9" * 30])
def test_a_rollout_whose_ordinals_cannot_go_on_is_refused(ordinal, session, mend):
    """A repeated ordinal would freeze the thread for good."""
    path = session("codex/lines-with-ordinals")
    with path.open("a") as file:
        file.write(f'{{"type":"world_state","ordinal":{ordinal},"payload":{{}}}}\n')
    assert mend(path).state == "refused"


# Values that no decoder expects, in place of a value that is copied, compared or looked up.
ODD = {
    "a folder that cannot be": ("pi_v3/dangling-at-the-end", '"cwd":"/project"', r'"cwd":"/a\u0000b"'),
    "a folder of half a character": ("pi_v3/dangling-at-the-end", '"cwd":"/project"', r'"cwd":"/\ud800"'),
    "a folder of a reply": ("claude_code/dangling-at-the-end", '"cwd":"/project"', r'"cwd":"/a\u0000b"'),
    "a number beyond all": ("pi_v3/dangling-at-the-end", '"version":3', '"version":3,"size":1e400'),
    "a number beyond all in a call": (
        "pi_v3/dangling-at-the-end",
        '"arguments":{',
        r'"x":"\ud800","arguments":{"n":-1e400,',
    ),
    "the last instant": ("claude_code/dangling-at-the-end", None, "9999-12-31T23:59:59.999Z"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_value_that_does_not_matter_is_ignored(odd, session, mend):
    """The call is answered, and the next look finds nothing to do."""
    name, old, new = ODD[odd]
    path = session(name)
    text = path.read_text()
    if old is None:
        old = json.loads(text.splitlines()[-1])["timestamp"]
    assert old in text
    path.write_text(text.replace(old, new))
    assert mend(path).state == "repaired"
    assert mend(path).state == "clean"


@pytest.mark.parametrize(
    ("name", "own", "copied"),
    [
        ("pi_v1/dangling-at-the-end", "c1", '"toolCallId"'),
        ("pi_v3/dangling-at-the-end", "c1", '"toolCallId"'),
        ("pi_v3/dangling-at-the-end", "a0000001", '"parentId"'),
        ("claude_code/dangling-at-the-end", "t1", '"tool_use_id"'),
        ("claude_code/dangling-at-the-end", "00000000-0000-4000-8000-000000000002", '"parentUuid"'),
        ("codex/dangling-at-the-end", "c1", '"call_id"'),
        ("claude_code/result-whose-call-is-lost", "00000000-0000-4000-8000-000000000001", '"parentUuid"'),
    ],
)
def test_an_id_with_half_a_character_is_copied_as_node_writes_it(name, own, copied, session, mend):
    """The report, which people may want as JSON, shows it, too."""
    path = session(name)
    half = r'"é\ud800"'
    path.write_text(path.read_text().replace(f'"{own}"', half))
    report = mend(path, drop_orphaned=True)
    assert report.state == "repaired"
    assert f"{copied}:{half}" in path.read_text().splitlines()[-1]
    msgspec.json.encode(report)
    assert mend(path).state == "clean"


@pytest.mark.parametrize("cwd", ["7", "{}"])
def test_a_file_with_an_odd_working_folder_is_refused_unless_a_person_vouches(cwd, session, mend):
    """A program that runs in such a folder could not be found."""
    path = session("pi_v3/dangling-at-the-end")
    path.write_text(path.read_text().replace('"cwd":"/project"', f'"cwd":{cwd}'))
    assert mend(path).state == "refused"
    assert mend(path, not_running=True).state == "repaired"


@pytest.mark.parametrize(
    ("replacement", "state"),
    [
        ('{"content":[{"type":"toolCall","id":"c2","name":"bash","arguments":{}}]}', "refused"),
        ('{"content":"I gave up."}', "refused"),
        ('{"content":7}', "refused"),
        ("7", "refused"),
        ("{}", "refused"),
        ("null", "clean"),
    ],
)
def test_a_session_with_an_edit_that_changes_calls_is_refused(replacement, state, session, mend):
    """The message no longer says which calls the model is sent, and where their results belong."""
    path = session("pi_v3/edit-omits-the-call")
    path.write_text(path.read_text().replace('"replacement":null', f'"replacement":{replacement}'))
    assert mend(path).state == state
