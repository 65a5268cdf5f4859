"""One execution of an agent's function: its operation ids, its replay, its end."""
