"""The seams: what can be plugged in, and what each part promises to the others.

    agents use Context (context)            channels, commands and programs use Supervisor (supervisor) and Run (runs)
    a store of journals is a Store (store)  surfaces where people answer are Channels (channel)

All code above a seam works with any implementation below it. One test suite runs over every Store.
"""
