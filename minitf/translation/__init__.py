"""Text in, text out: translate lines with a trained run."""
