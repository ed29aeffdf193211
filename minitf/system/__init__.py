"""What depends on the machine and on Python's version: files, signals, the terminal, facts about both, and sums."""
