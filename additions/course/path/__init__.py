"""`minitf learn build`: the path on which a learner builds an engine and a Transformer, step by step."""
