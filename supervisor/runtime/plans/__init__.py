"""Plans: pure functions of a view that return events, and are run inside the transaction."""
