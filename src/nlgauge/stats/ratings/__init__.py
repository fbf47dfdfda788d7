"""What raters agree on, and what that leaves for metrics to reach; never files or raters by name."""
