"""The Transformer (section 3): layers, attention, encoder and decoder."""
