"""`top` away from a terminal: one frame, or one document."""


def test_one_frame_and_one_document_say_what_waits(supervisor):
    """Of a tree that nobody runs: its root says so, its sub-agents what they wait for; an ended tree is not there."""
    supervisor.ask("first", "second")
    frame = supervisor("top")
    assert (frame.code, frame.out.count("waiting for you")) == (0, 2), frame
    assert "\x1b" not in frame.out
    document = supervisor("top", "asking", "--json").json
    kinds = [
        (each["path"][-1], each["clock"], [doing["kind"] for doing in each["doing"]]) for each in document["sessions"]
    ]
    assert kinds == [
        ("asking", "asleep", ["children"]),
        ("asking_once", "asleep", ["approval"]),
        ("asking_once", "asleep", ["approval"]),
    ]
    assert {each["owner"] for each in document["sessions"]} == {None}
    supervisor("cancel", "asking")
    assert supervisor("top", "--json").json["sessions"] == []
    assert {each["outcome"] for each in supervisor("top", "asking", "--json").json["sessions"]} == {"cancelled"}


def test_there_is_nothing_to_look_at_without_a_store(supervisor):
    """Looking creates none."""
    assert (supervisor("top", "--once").code, supervisor("top", "nobody").code) == (0, 5)
    assert not supervisor.store.exists()
