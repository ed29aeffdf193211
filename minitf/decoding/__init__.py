"""Search over target sentences (section 6.1): greedy, beam search, sampling, scoring."""
