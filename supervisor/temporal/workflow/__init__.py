"""What runs inside a workflow: it is run again from its history, so it must do the same each time. It reaches the
server through temporalio's `workflow` module alone, and reads no clock, no disk and no chance of its own."""
