"""Text in, text out: translate and parse lines with a trained run."""
