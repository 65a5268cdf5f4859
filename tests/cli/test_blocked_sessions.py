"""A blocked session, which today's code cannot go on with, as people at a terminal see it."""

from changed_agents import RELEASE


def test_it_is_said_where_the_code_parts_and_that_nothing_is_lost(supervisor):
    """Exit code 7. `sessions` and `show` say that it is blocked and where; the old code goes on."""
    file = supervisor.folder / "release.py"
    file.write_text(RELEASE.format(first="await ctx.now()"))
    assert supervisor("run", f"{file}:release", '"prod"', "--session", "s").code == 3
    file.write_text(RELEASE.format(first="await ctx.random()"))
    (asked,) = supervisor("approvals", "--json").json
    assert supervisor("approve", asked["id"]).code == 0
    answer = supervisor("resume", "s", "--json")
    assert answer.code == 7, answer
    assert f"{file}:10" in answer.err
    (view,) = supervisor("sessions", "--json").json
    assert (view["status"], view["blocked"]["entry"]) == ("blocked", 4)
    shown = supervisor("show", "s").out
    assert f"{file}:10" in shown
    assert "entry 4" in shown
    file.write_text(RELEASE.format(first="await ctx.now()"))
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == "prod"
