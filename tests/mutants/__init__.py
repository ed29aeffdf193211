"""Proof that the proof works: functions of the house with one mistake each, and the checks that notice.

    python -m tests.mutants

makes mistakes by rule on the syntax tree (mutants.py), and runs the checks that users and `make prove` run, the nearest
first, until one fails (checks.py).  A mutant that no check notices is a hole in the checks.
"""
