-- The control store: on what several pgweir instances agree (docs/continuity.md).
--
--     psql -d control -f control-store.sql
--
-- as a superuser, or as an owner of the database who may create roles; PostgreSQL 13 and later. All of it or
-- nothing. Run it again after an update of pgweir: functions are replaced, what the tables hold stays.
--
-- It makes the schema pgweir, all of it owned by pgweir_owner, who cannot log in, and three roles to be granted:
--
--     pgweir         pgweir instances, and the operator
--     pgweir_drain   the drain worker
--     pgweir_app     applications that queue commands
--
-- None of the three can touch a table. They call functions, which run with the rights of pgweir_owner (SECURITY
-- DEFINER), with a search_path of their own, and say what is allowed.

\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '3s'; -- it may run beside instances that poll: better it fails than they are kept waiting

\ir roles.sql
CREATE SCHEMA IF NOT EXISTS pgweir AUTHORIZATION pgweir_owner;
SET LOCAL ROLE pgweir_owner;
SET LOCAL search_path = pg_catalog, pg_temp;

\ir control-store/tables.sql
\ir control-store/common.sql
\ir control-store/clusters.sql
\ir control-store/nodes.sql
\ir control-store/queue.sql
\ir control-store/snapshots.sql
\ir control-store/rights.sql

COMMIT;
