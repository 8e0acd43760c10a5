#!/bin/sh
# Run by the database's image when its volume is new: makes roles and databases.
set -eu
secret() { cat "/run/secrets/$1"; }
# In the environment, which others cannot read as they can a command line.
LEDGER_OWNER_PASSWORD=$(secret ledger_owner_password)
LEDGER_PASSWORD=$(secret ledger_password)
PREFECT_PASSWORD=$(secret prefect_password)
export LEDGER_OWNER_PASSWORD LEDGER_PASSWORD PREFECT_PASSWORD
psql --username postgres --no-psqlrc -f /etc/dp-release/roles.sql
