"""Language resources behind perturbations: word forms, parsers, WordNet, ConceptNet, grammar, translation."""
