"""Language models as raters."""
