"""Constituency parsing as translation into linearised trees: section 6.3 of the paper."""
