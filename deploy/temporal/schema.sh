#!/bin/sh
# Creates Temporal's databases and their tables, or brings them up to the version of this tool. Doing it again changes nothing.
# Where the database is, and who may do so, is in the SQL_* variables.
set -eu

make_database() { # name, folder of its schema
    temporal-sql-tool --db "$1" create-database
    temporal-sql-tool --db "$1" setup-schema --version 0.0
    temporal-sql-tool --db "$1" update-schema --schema-name "$2"
}

make_database temporal postgresql/v12/temporal
make_database temporal_visibility postgresql/v12/visibility
