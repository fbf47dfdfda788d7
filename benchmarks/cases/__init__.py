"""The comparisons, one a file; each has `measure(bench) -> Section`."""
