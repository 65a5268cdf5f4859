"""Floor 0, pure: what can happen. No clock, no I/O, no task, no log; `now` is always an argument."""
