"""The run directory: its files, its log and its checkpoints."""
