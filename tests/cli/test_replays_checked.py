"""`check-replay`: before a deployment, whether the new code can go on with open sessions."""

from changed_agents import RELEASE


def test_a_change_is_checked_before_it_is_deployed(supervisor):
    """Exit code 0 if all can go on, 7 with the line of code if one would be blocked. The store does not change."""
    old, new = supervisor.folder / "old.py", supervisor.folder / "new.py"
    old.write_text(RELEASE.format(first="await ctx.now()"))
    new.write_text(RELEASE.format(first="await ctx.random()"))
    assert supervisor("run", f"{old}:release", '"prod"', "--session", "s").code == 3
    before = supervisor("show", "s", "--json").json
    assert supervisor("check-replay", str(old)).code == 0
    answer = supervisor("check-replay", str(new), "--json")
    assert answer.code == 7, answer
    (found,) = answer.json
    assert (found["kind"], found["block"]["entry"]) == ("blocked", 4)
    assert found["block"]["where"].startswith(f"{new}:")
    export = supervisor.folder / "s.jsonl"
    assert supervisor("export", "s", "--output", str(export)).code == 0
    assert supervisor("check-replay", str(new), "--export", str(export)).code == 7
    assert supervisor("show", "s", "--json").json == before


def test_a_check_writes_nothing_to_the_store(supervisor):
    """It reads a copy: no byte of the file changes."""
    agents = supervisor.folder / "old.py"
    agents.write_text(RELEASE.format(first="await ctx.now()"))
    assert supervisor("run", f"{agents}:release", '"prod"', "--session", "s").code == 3
    before = supervisor.store.read_bytes()
    assert supervisor("check-replay", str(agents)).code == 0
    assert supervisor.store.read_bytes() == before
