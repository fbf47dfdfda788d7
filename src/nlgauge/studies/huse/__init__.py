"""HUSE (paper 3): the score, its intervals, trade-off, stability and typicality."""
