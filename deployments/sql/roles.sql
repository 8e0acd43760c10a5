-- Two databases and their roles, with no more rights than each needs. Run once, by a superuser:
--   psql -v ledger_owner_password=... -v ledger_password=... -v prefect_password=... -f roles.sql
-- The owner makes and migrates the ledger's tables (`dp-release ledger verify` as the owner, once);
-- jobs run as dp_release, which adds entries and can change none. docs/deploy.md has the steps.
\set ON_ERROR_STOP on

CREATE ROLE dp_release_owner LOGIN PASSWORD :'ledger_owner_password';
CREATE ROLE dp_release LOGIN PASSWORD :'ledger_password';
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';

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
