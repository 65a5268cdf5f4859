"""The mirror of a client: a store that is filled with what the workflows of a namespace have journaled.

mirror       reads trees into the store                 store        in memory, or a file
namespace    where it reads                             looks        when it reads each tree next
ended        trees that Temporal has ended              stuck        trees with which no worker can go on
"""
