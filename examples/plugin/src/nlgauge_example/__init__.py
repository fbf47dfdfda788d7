"""A plugin of NLGauge."""
