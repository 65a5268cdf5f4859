"""The mirror of a client: a store that is filled with what the workflows of a namespace have journaled."""
