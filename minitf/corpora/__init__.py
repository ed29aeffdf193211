"""The built-in parallel corpus."""
