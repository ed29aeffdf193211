"""The run directory: configuration, checkpoints and log."""
