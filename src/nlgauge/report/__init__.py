"""Tables, charts and the report card: shows results, computes none."""
