"""The training loop and its parts (section 5)."""
