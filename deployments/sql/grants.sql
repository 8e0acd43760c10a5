-- What the jobs' role may do in the ledger. Run by the ledger's owner, in the database `ledger`, once
-- its tables are there, and again after an update that says so in the changelog.
\set ON_ERROR_STOP on
GRANT SELECT, INSERT ON entries, totals TO dp_release;
GRANT SELECT, INSERT, UPDATE ON leases TO dp_release;
GRANT SELECT ON alembic_version TO dp_release;
