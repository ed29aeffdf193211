"""The training loop and its parts (section 5): loss, Adam, state and schedule, validation, checkpoints, processes."""
