"""Numbers of 8 and 16 bits on a CPU: weights for decoding, and activations of training.

Kernels of the table are the entrance: `packed_weights(precision)` gives the class of weights, `linear_packed`
multiplies with them, and `set_precision("bf16")` puts the kernels of bf16.py before the others.
"""
