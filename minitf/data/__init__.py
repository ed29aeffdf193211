"""From text files to batches of token ids (section 5.1)."""
