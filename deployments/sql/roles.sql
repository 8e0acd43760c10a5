-- Two databases and their roles, with no more rights than each needs. Run once, by a superuser:
--   LEDGER_OWNER_PASSWORD=... LEDGER_PASSWORD=... PREFECT_PASSWORD=... psql -f roles.sql
-- with the values from files, as init.sh does. Passwords come from the environment (psql 15 or newer),
-- since every user of a machine sees its command lines.
-- The owner makes and migrates the ledger's tables (`dp-release ledger verify` as the owner, once);
-- jobs run as dp_release, which adds entries and can change none. docs/deploy.md has the steps.
\set ON_ERROR_STOP on

\getenv ledger_owner_password LEDGER_OWNER_PASSWORD
\getenv ledger_password LEDGER_PASSWORD
\getenv prefect_password PREFECT_PASSWORD
\if :{?ledger_owner_password}
\else
  \warn 'LEDGER_OWNER_PASSWORD is not set.'
\endif
\if :{?ledger_password}
\else
  \warn 'LEDGER_PASSWORD is not set.'
\endif
\if :{?prefect_password}
\else
  \warn 'PREFECT_PASSWORD is not set.'
\endif
-- Nor do they belong into the server's log, even where a statement fails.
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;

BEGIN;
CREATE ROLE dp_release_owner LOGIN PASSWORD :'ledger_owner_password';
CREATE ROLE dp_release LOGIN PASSWORD :'ledger_password';
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
COMMIT;

CREATE DATABASE ledger OWNER dp_release_owner;
CREATE DATABASE prefect OWNER prefect;
REVOKE ALL ON DATABASE ledger FROM PUBLIC;
REVOKE ALL ON DATABASE prefect FROM PUBLIC;
GRANT CONNECT ON DATABASE ledger TO dp_release;

\connect prefect
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO prefect;

\connect ledger
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO dp_release_owner;
GRANT USAGE ON SCHEMA public TO dp_release;
