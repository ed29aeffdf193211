"""Exercises that check a hand-written backward pass, bugs to find, and a conformance table for models of your own.

    minitf learn            lists the exercises
    minitf.learn.conformance.check(my_model)

`exercise.py` reads the files in `exercises/` and `bugs/`, each of which holds text, reference solution, hints, checks
and known mistakes; `judge.py` runs an answer; `expect.py` has what the checks are written with.
"""
