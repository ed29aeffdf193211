"""Bugs to find: each file is right, and says which line is shown wrong."""
