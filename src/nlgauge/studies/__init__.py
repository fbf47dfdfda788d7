"""Studies of the papers: gauging the gauges. One file a study, one call a study."""
