"""Scripts that redo the tables and figures of the papers."""
