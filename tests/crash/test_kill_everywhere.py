"""A process dies before or after every n-th commit, and its successor early in its life. The third process runs to the
end."""

import signal
from functools import partial

import pytest
from afterwards import lines, log_of, problems

STOPPED = 128 + signal.SIGTERM
SIGNALS = {"kill": -signal.SIGKILL, "term": STOPPED}


def every(step):
    """Return every n-th point of death. n is odd, so that both sides of commits have their turn. With `-m soak`, all
    points."""
    return pytest.mark.parametrize("step", [step, pytest.param(1, marks=pytest.mark.soak)])


def points(nests, folder, backend, **job):
    """Return (when, n) for each commit of an undisturbed life, which has no problems of its own."""
    folder.mkdir()
    assert nests.live("run", folder, backend=backend, **job) == 0, log_of(folder)
    assert problems(folder, "top", may_lose=False) == []
    commits = int(lines(folder, "commits")[0])
    return [(when, n) for n in range(1, commits + 1) for when in ("before", "after")]


def three_lives(nests, folder, case, act, **job):
    """Live and be stopped at a point, live again and be stopped early, live to the end. Return the exit codes."""
    folder.mkdir()
    live = partial(nests.live, folder=folder, **job)
    when, n = case
    return [live("run", act=act, when=when, n=n), live("run", act=act, n=3 + n % 5), live("resume")]


def enumerate_deaths(nests, two_at_a_time, folder, act, step, *, may_lose=True, **job):
    """Return the problems of all stories whose first life ends at every `step`-th point. Some must have ended so."""
    ended = []

    def story(case):
        here = folder / f"{case[0]}{case[1]}"
        codes = three_lives(nests, here, case, act, **job)
        ended.extend(code for code in codes if code == SIGNALS[act])
        is_as_wanted = codes[-1] == 0 and {*codes} <= {0, SIGNALS[act]}
        found = [] if is_as_wanted else [f"exit codes {codes}: {log_of(here)}"]
        return [(case, problem) for problem in (*found, *problems(here, "top", may_lose=may_lose))]

    found = two_at_a_time(story, points(nests, folder / "undisturbed", **job)[::step])
    return found if ended else ["nobody died"]


@pytest.mark.slow
@every(5)
def test_a_process_that_dies_around_any_commit_leaves_nothing_done_twice_or_lost(
    nests, two_at_a_time, tmp_path, backend, step
):
    """SIGKILL around every n-th commit, twice: each effect happens once or is reported lost, approvals are kept, and no
    call dangles."""
    assert enumerate_deaths(nests, two_at_a_time, tmp_path, "kill", step, backend=backend) == []


@pytest.mark.slow
@every(7)
def test_a_process_that_dies_around_any_commit_loses_no_passivated_run(nests, two_at_a_time, tmp_path, backend, step):
    """Runs leave memory as soon as they only wait, and decisions come meanwhile."""
    job = {"backend": backend, "passivate_after": 0.02}

    assert enumerate_deaths(nests, two_at_a_time, tmp_path, "kill", step, **job) == []


@pytest.mark.slow
@every(7)
def test_a_graceful_stop_at_any_commit_loses_and_withdraws_nothing(nests, two_at_a_time, tmp_path, backend, step):
    """SIGTERM around every n-th commit, twice: not even a call in flight is lost."""
    assert enumerate_deaths(nests, two_at_a_time, tmp_path, "term", step, may_lose=False, backend=backend) == []
