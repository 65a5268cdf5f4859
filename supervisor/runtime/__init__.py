"""The runtime of one machine: it runs agents as tasks, with clocks and a journal. Its rooms are layers."""
