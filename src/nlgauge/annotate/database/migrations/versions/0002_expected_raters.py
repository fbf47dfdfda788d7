"""The ids of platforms that a study expects."""

from __future__ import annotations

from alembic import op

from nlgauge.annotate.database.schema import expected_rater

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the table; studies that exist expect everybody, as before."""
    expected_rater.create(op.get_bind())
