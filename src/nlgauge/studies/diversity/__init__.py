"""Studies of papers 1 and 2: content, decoding, ranking, nuggets, stability, length bias."""
