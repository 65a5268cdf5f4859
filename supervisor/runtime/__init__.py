"""Floor 2: time and tasks, on one machine."""
