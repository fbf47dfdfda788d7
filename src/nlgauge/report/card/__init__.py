"""The report card: measuring, contents, sections and the page."""
