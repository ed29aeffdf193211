"""Text files, the subword vocabulary, and batches of token ids (section 5.1)."""
