"""What runs inside a workflow. Temporal runs it again from its history, so it must do and ask for the same each time.

It has no clock, no disk, no chance and no connection of its own: it reaches the server through temporalio's `workflow`
module, and everything else through activities of a worker.

    workflows    a tree's, and those that claim             tree         our runtime over a journal in memory
    journal      that journal, as clients read it           hosting      its runner, and the tasks that it owns
    commands     what is asked of it, and answers           answering    how it does a command
    shown        what a client reads without a worker       moving       how it goes on in a new workflow
    environment  time, ids, chance                          bodies       calls and steps, as activities
    references   names of functions and agents              missing      agents that a worker lacks
    turns        of a tree that has ended                   claims       workflows that claim by their ids
    rules        the workflow that keeps the rules          bridge       how code of a workflow waits
    order        in which cancelled tasks go on
"""
