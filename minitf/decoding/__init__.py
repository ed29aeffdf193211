"""Search over target sentences (section 6.1): greedy and beam search, scores of given ones."""
