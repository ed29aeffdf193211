"""The Transformer (section 3): layers.py and transformer.py are the paper's, variants.py has others."""

from minitf.model import variants as variants
