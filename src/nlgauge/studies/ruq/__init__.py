"""RUQ (paper 5): the score, the sweep over models, and the entropy filter."""
