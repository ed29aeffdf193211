"""The Transformer of "Attention Is All You Need" on top of the autograd engine."""
