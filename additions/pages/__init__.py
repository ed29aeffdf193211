"""Pages and figures: training curves, attention weights."""
