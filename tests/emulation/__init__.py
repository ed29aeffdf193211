"""What stands in for CuPy and a GPU where there is none: the kernels run on the CPU, an array at a time."""
