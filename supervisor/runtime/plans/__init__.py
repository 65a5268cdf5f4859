"""Plans that events come from: pure functions of a view, run inside the transaction."""
