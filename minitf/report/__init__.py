"""What a run shows of itself: scores, curves, attention pictures."""
