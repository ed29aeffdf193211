"""Exercises that check a hand-written backward pass, bugs to find, and a conformance table for models of your own."""
