"""Studies of the papers: tests of metrics, raters and systems. One file per study, one call per study."""
