"""The annotation site: studies in which people rate texts, from the form to the exported ratings."""
