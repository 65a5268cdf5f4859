"""`fork`: an operator starts a session from a copy of another one."""

from changed_agents import NOTES

ASKS = NOTES.format(then="return f\"{noted.content} {(await ctx.call(deploy, 'twice')).kind}\"")


def entry_of(supervisor, session: str, kind: str) -> str:
    rows = supervisor("show", session, "--json").json["timeline"]
    return str([row["event"] for row in rows].index(kind) + 1)


def test_a_session_is_forked_twice_before_a_decision(supervisor):
    """Each fork asks again and exits with 3. Calls that had finished do not run again; later calls, which may, are
    listed. An unknown entry or session, and an id that is taken, are refused in one line."""
    file = supervisor.folder / "works.py"
    file.write_text(ASKS)
    assert supervisor("run", f"{file}:works", "--session", "s", "--unattended", "allow").code == 0
    before = entry_of(supervisor, "s", "ApprovalDecided")
    for name in ("f", "g"):
        made = supervisor("fork", "s", "--before", before, "--session", name, "--json")
        assert (made.code, made.json["session"]) == (3, name), made
        assert "entry 7 of s" in made.err
    assert (supervisor.folder / "noted").read_text() == "once\ntwice\n"
    assert [each["session"] for each in supervisor("approvals", "--json").json] == ["f", "g"]
    assert supervisor("resume", "f", "--unattended", "deny", "--json").json["outcome"]["value"] == "once denied"
    end = entry_of(supervisor, "s", "RunFinished")
    whole = [supervisor("fork", "s", "--before", end, "--json").json["outcome"]["value"] for _ in range(2)]
    assert whole == ["once ok"] * 2
    assert "session g" in supervisor("audit").out
    for words, code in ((["s", "--before", "99"], 2), (["nobody", "--before", "3"], 5), (["s", "--before", "1"], 2)):
        refused = supervisor("fork", *words)
        assert (refused.code, len(refused.err.splitlines())) == (code, 1), refused
    assert supervisor("fork", "s", "--before", before, "--session", "f").code == 0  # this very fork, which has ended
    assert supervisor("fork", "s", "--before", end, "--session", "f").code == 4
