"""Raters from Mechanical Turk and Prolific: entrances to the site, files to send and to read; never how studies run."""
