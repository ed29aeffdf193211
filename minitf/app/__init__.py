"""The commands of `minitf`, listed in `commands.py`."""
