"""A run from its start, or from its last checkpoint, to the scores of its test set."""
