"""The life of a run in this process: claim, launch, passivate, block, restart and finish."""
