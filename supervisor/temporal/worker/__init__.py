"""A worker process: it runs the workflows, and the bodies of calls and steps as activities.

worker       the process                                bodies       calls and steps
offered      the functions that it runs, and no others  namespace    what it does there for a tree
determinism  what an agent's own code may not call      unstarted    events of a task that has not begun
long_steps   nothing interrupts one                     diverged     what does not follow a history
"""
