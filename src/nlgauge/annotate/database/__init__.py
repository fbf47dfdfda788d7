"""The database of the annotation site: schema, migrations, assignment, verdicts, logins."""
