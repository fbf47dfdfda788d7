"""The first revision: the tables that `schema.migrate` made in an empty database when migrations began."""

from __future__ import annotations

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Nothing: an empty database gets the current tables at once, and the latest revision."""
