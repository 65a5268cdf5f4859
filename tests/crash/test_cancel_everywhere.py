"""A tree is cancelled at every n-th commit, by a task of its process or by another process, which may die half-way."""

import signal
from functools import partial

import pytest
from afterwards import Story, effects, left_open, lines, log_of, problems
from test_kill_everywhere import every, points

from supervisor.core import events as e

DEATHS = [("after", 0), ("before", 1), ("after", 1), ("before", 2), ("after", 2), ("before", 3)]
"""When a process dies that cancels: commits after it was told to; 0: not at all."""


def had_returned(story):
    """Return whether the agent had returned before the cancel came, which then ended nothing: the first stop reason
    wins (W1)."""
    *_, cancel, last = [row.event for row in story.rows if row.session == "top"]
    return isinstance(cancel, e.CancelRequested) and isinstance(last, e.RunFinished) and last.kind == "succeeded"


def unfinished_business(folder, happened):
    """Return the problems of a tree that was cancelled and resumed afterwards; before that, `happened`."""
    story = Story(folder)
    if not story.is_cancelled("top") or had_returned(story):
        return problems(folder, "top")
    found = [*left_open(story), *(f"resumed: {line}" for line in effects(folder) - happened)]
    twice = [f"twice: {line}" for line, count in effects(folder).items() if count > (3 if "same" in line else 1)]
    kind = story.states["top"].outcome.kind
    return [*found, *twice, *([] if kind == "cancelled" else [f"the cancelled tree {kind}"])]


@pytest.mark.slow
@every(13)
def test_a_cancel_that_was_accepted_is_finished_by_the_next_life_and_never_resumed(
    nests, two_at_a_time, tmp_path, backend, step
):
    """A task cancels at the n-th commit, and the process dies before or after the commits of that cancel."""
    deaths = []

    def story(case):
        n, (when, after) = case
        folder = tmp_path / f"{n}{when}{after}"
        folder.mkdir()
        code = nests.live("cancel_midway", folder, backend=backend, n=n, when=when, kill_after=after)
        deaths.append(code)
        happened, state = effects(folder), Story(folder).states["top"]
        resumed = nests.live("resume", folder, backend=backend)
        found = [] if resumed == 0 and code in (0, -9) else [f"exit codes {code}, {resumed}: {log_of(folder)}"]
        found += ["not on disk"] if lines(folder, "cancel") and not (state.cancel or state.outcome) else []
        return [(case, problem) for problem in (*found, *unfinished_business(folder, happened))]

    commits = {n for _, n in points(nests, tmp_path / "undisturbed", backend)}
    cases = [(n, death) for n in sorted(commits) for death in DEATHS]
    assert two_at_a_time(story, cases[::step]) == []
    assert -signal.SIGKILL in deaths


@pytest.mark.slow
@every(5)
def test_a_cancel_from_another_process_is_obeyed_by_the_owner_or_by_its_successor(
    nests, two_at_a_time, tmp_path, backend, step
):
    """While the owner is stopped after its n-th commit, another process cancels. The owner then goes on, or dies."""

    def story(n):
        folder = tmp_path / str(n)
        folder.mkdir()
        live = partial(nests.live, folder=folder, backend=backend)
        owner = nests.begin("run", folder, backend=backend, act="stop", n=n)
        codes = []
        if owner.stops():
            codes.append(live("cancel"))
            owner.signal(signal.SIGKILL if n % 2 else signal.SIGCONT)
        codes.append(owner.end() % 9)
        happened = effects(folder)
        codes.append(live("resume"))
        found = [] if not any(codes) else [f"exit codes {codes}: {log_of(folder)}"]
        return [(n, problem) for problem in (*found, *unfinished_business(folder, happened))]

    commits = {n for _, n in points(nests, tmp_path / "undisturbed", backend)}
    assert two_at_a_time(story, sorted(commits)[::step]) == []


def test_a_tree_without_an_owner_is_ended_by_the_process_that_cancels_it(nests, tmp_path, backend):
    """The tree was left while it waited for people. A process that only cancels ends it, deepest first."""
    assert nests.live("begin_and_leave", tmp_path, backend=backend, session="top") == 0
    asked = len([a for a in Story(tmp_path).approvals if a.status == "pending"])

    assert nests.live("cancel", tmp_path, backend=backend, session="top") == 0

    assert asked > 0
    assert unfinished_business(tmp_path, effects(tmp_path)) == []
    assert Story(tmp_path).states["top"].outcome.cause is not None
