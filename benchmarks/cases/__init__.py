"""The comparisons, one per file; each has `measure(bench) -> Section`."""
