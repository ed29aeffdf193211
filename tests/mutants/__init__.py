"""Proof that the proof works: backward passes damaged one at a time, and the checks that notice.

    python -m tests.mutants

damages each function in the lists (ops.py, fast.py, kernels.py, circumstances.py, engine.py, higher_order.py,
network.py, optimizer.py, checker.py, insight.py), runs the checks that users and `make prove` run, the nearest first,
and stops at the first that fails.  The same check must then pass on the code as it is.  A mutant that no check notices
is a hole in the checks.
"""
