#!/bin/sh
# Run by the database's image when its volume is new: makes roles and databases.
set -eu
secret() { cat "/run/secrets/$1"; }
psql --username postgres --no-psqlrc \
    -v ledger_owner_password="$(secret ledger_owner_password)" \
    -v ledger_password="$(secret ledger_password)" \
    -v prefect_password="$(secret prefect_password)" \
    -f /etc/dp-release/roles.sql
