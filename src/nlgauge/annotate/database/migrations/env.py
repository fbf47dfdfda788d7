"""Run by Alembic with the connection that `schema.migrate` opened; there is no file of settings."""

from __future__ import annotations

from alembic import context

from nlgauge.annotate.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
