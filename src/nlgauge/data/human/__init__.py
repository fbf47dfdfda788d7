"""Ratings, questionnaires, crowd exports and released human judgments."""
