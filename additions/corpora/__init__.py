"""Corpora: public ones by name, statistics and splits of your own."""
