"""Training: data, steps, checkpoints and the recipes of trained metrics."""
