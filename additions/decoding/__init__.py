"""Ensembles, sampling, and the attention of a model while it decodes."""
