"""The commands of `minitf`, listed in `__main__.py`."""
