"""The model, its training and its decoding, faster: parts that replace those of minitf.model (see accelerate.py)."""
