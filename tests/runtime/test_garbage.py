"""The garbage collector's threshold is the program's, and given back to it."""

import gc

import pytest

from supervisor.runtime.garbage import AFTER, collecting_seldom


@pytest.mark.parametrize("usual", [0, 700, AFTER + 1])
def test_a_threshold_is_raised_while_anybody_is_open_and_given_back_by_the_last(usual: int) -> None:
    """A low threshold is raised; one that the program raised itself, or switched off, is left alone."""
    before = gc.get_threshold()
    raised = AFTER if usual == 700 else usual
    gc.set_threshold(usual, *before[1:])
    try:
        with collecting_seldom():
            with collecting_seldom():
                assert gc.get_threshold()[0] == raised
            assert gc.get_threshold()[0] == raised
        assert gc.get_threshold() == (usual, *before[1:])
    finally:
        gc.set_threshold(*before)
