"""The tree of runs as lines: what is shown, in what order, and that it fits."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st
from rich.cells import cell_len

from supervisor.channels.terminal.tree import draw_tree
from supervisor.core.sessions.activity import Activity, Doing
from supervisor.core.usage import Spent
from supervisor.core.values import Approval

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def asking(name):
    approval = Approval(
        id=f"a-{name}",
        session=name,
        root_session="root",
        path=("boss", name),
        agent=name,
        operation="o#1",
        tool="shell",
        arguments={"command": "make"},
        digest="",
        cwd="/",
        options=(),
        requester="ann",
        status="pending",
        created_at=NOW - timedelta(seconds=40),
    )
    return Doing(kind="approval", approval=approval, since=approval.created_at)


def run(session, *doing, parent="root", path=None, age=12, **facts):
    facts = {"owner": "process 1", "clock": "paused", "path": path or ("boss", session), **facts}
    at = NOW - timedelta(seconds=age)
    return Activity(session=session, parent=parent, root="root", created_at=at, heard_at=at, doing=doing, **facts)


ROOT = run("root", Doing(kind="children", count=3), parent=None, path=("boss",))


def drawn(activities, width=80, height=24):
    return [line.plain for line in draw_tree(activities, width, height, NOW)]


def row(lines, name):
    return next(line for line in lines if re.match(rf"\S +{name}\b", line))


def test_a_run_that_writes_shows_the_end_of_its_text():
    """Escaped, and cut from the left; a question to a person comes first."""
    told = "The tide\n\x1b[31m " + "word " * 50 + "the end"
    lines = drawn(
        [ROOT, run("model", Doing(kind="model_call"), writing=told), run("asks", asking("asks"), writing=told)]
    )
    assert re.search(r"writes: ….*word the end +12 s", row(lines, "model"))
    assert "waiting for you" in row(lines, "asks")
    assert "⟨U+001B⟩[31m" in "".join(drawn([run("model", writing="\x1b[31m red", parent=None)]))


def test_each_run_says_what_it_does_since_when_and_why_its_clock_stands():
    """One line each, with sub-agents below their parents."""
    lines = drawn([
        ROOT,
        run("late", parent="child", path=("boss", "child", "late"), outcome="succeeded"),
        run("child", asking("child")),
        run("model", Doing(kind="model_call", since=NOW - timedelta(seconds=50)), clock="running", budget=60.0,
            budget_left=9.0),
        run(
            "shelled",
            Doing(kind="call", name="shell", arguments={"command": ["pytest", "-q"]}, command="command"),
            clock="paused",
        ),
    ])  # fmt: skip
    assert [re.search(r"root|late|child|model|shelled", line)[0] for line in lines[1:]] == [
        *("root", "child", "late", "model", "shelled")
    ]
    assert row(lines, "child").startswith("? ")
    assert all(part in row(lines, "child") for part in ("make", "40 s", "you"))
    assert row(lines, "model").startswith("! ")
    assert all(part in row(lines, "model") for part in ("model call", "50 s", "9 s"))
    assert all(part in row(lines, "shelled") for part in ("pytest -q", "12 s", "call"))


def test_each_run_says_what_it_and_all_below_it_have_spent():
    """Of unknown price, too; one that waits for a budget says so."""
    spent = Spent(requests=8, usd=4.1, unpriced=3)
    lines = drawn([ROOT, run("paid", Doing(kind="model_call"), usage=spent), run("poor", Doing(kind="budget"))])
    assert "model call · 4.10 USD and 3 requests of" in row(lines, "paid")
    assert "waits: its budget is used up" in row(lines, "poor")
    assert "USD" not in row(lines, "poor")


def test_a_value_that_only_another_process_knows_is_a_question_mark():
    """Nothing is invented: neither what it does nor its budget."""
    assert row(drawn([ROOT, run("foreign", Doing(kind="unknown"), clock="unknown")]), "foreign").count("?") == 2


def test_of_three_hundred_sessions_urgent_ones_are_shown_and_the_rest_is_counted():
    """Sessions that wait for a person come first, then those in trouble, then bad ends; the counts have all others."""
    runs = [run(f"done{n}", outcome="succeeded") for n in range(212)]
    runs += [run(f"busy{n}", Doing(kind="call", name="shell")) for n in range(41)]
    runs += [run(f"stalled{n}", outcome="stalled") for n in range(30)]
    runs += [run(f"short{n}", clock="running", budget=60.0, budget_left=1.0) for n in range(8)]
    runs += [run(f"asking{n}", asking("x")) for n in range(9)]
    lines = drawn([ROOT, *runs])
    assert 22 <= len(lines) <= 24
    signs = [line[0] for line in lines if line[0] in "?!x"]
    assert signs == ["?"] * 9 + ["!"] * 8 + ["x"] * (len(signs) - 17)
    assert "".join(signs).count("x") > 1
    counted = sum(int(number) for number in re.findall(r"(\d+) ", " ".join(line for line in lines if line[:2] == "  ")))
    assert counted + len(signs) == len(runs) + 1
    assert any("212" in line for line in lines)


def test_completed_runs_are_folded_before_open_ones():
    """As long as those at work fit, the tree keeps its shape."""
    runs = [run(f"done{n}", outcome="succeeded") for n in range(40)]
    lines = drawn([ROOT, *runs, run("busy", Doing(kind="model_call"))], height=6)
    assert [line[0] for line in lines[1:]] == [".", "*", " "]
    assert "40" in lines[-1]


def test_columns_stand_below_each_other_whatever_is_in_them():
    """Wide, combining and many characters are counted by the cells that they take."""
    texts = ["界" * 50, "e\u0301" * 80, "👍" * 50, "x" * 200, "short"]
    runs = [run(f"s{n}", Doing(kind="call", name="t", arguments={"a": text})) for n, text in enumerate(texts)]
    lines = drawn([ROOT, *runs])[1:]
    assert len({cell_len(line[: line.index("12 s")]) for line in lines}) == 1


hostile = st.text(max_size=40) | st.sampled_from(["\x1b[2J", "\u202e", "e\u0301" * 9, "界" * 30, "👍🏽" * 9, "a\r\nb"])


@given(st.lists(st.tuples(hostile, hostile, hostile), max_size=12), st.integers(1, 130), st.integers(1, 12))
def test_nothing_that_agents_write_breaks_a_line(texts, width, height):
    """Whatever they write: no line is too wide or too many, and nothing in it is obeyed by a terminal (A4)."""
    runs = [
        run(f"s{n}", Doing(kind="call", name=tool, arguments={"command": argument}), path=("boss", name))
        for n, (name, tool, argument) in enumerate(texts)
    ]
    lines = drawn([ROOT, *runs, run("bad", outcome="failed", cause="".join(map("".join, texts)))], width, height)
    assert 0 < len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    assert not {unicodedata.category(char) for line in lines for char in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
