"""Studies of paper 4: correlation, improvement, drift, discrimination, invariance, agreement."""
