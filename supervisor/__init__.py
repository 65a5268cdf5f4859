"""Sub-agents under a watchdog that waits for people."""
