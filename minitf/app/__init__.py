"""The command line: each module is a command of `minitf`, listed in `commands.py`."""
