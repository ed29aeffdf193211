"""The operating system: files, signals, the terminal, and facts about the machine."""
