"""Exercises: each file is a solution with its text, hints and checks."""
