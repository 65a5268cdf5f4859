"""A worker process: it runs the workflows, and the bodies of calls and steps as activities."""
