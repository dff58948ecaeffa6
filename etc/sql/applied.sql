-- On the database that commands are applied to: which ones were. For continuity-drain (docs/continuity.md).
--
--     psql -d app -f applied.sql
--
-- Whoever applies a command notes it in the same transaction. So the effect of a command and the note of it are there
-- together or not at all, and however often a command is claimed, it has its effect once. Running this again is no harm.

\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
\ir roles.sql
CREATE SCHEMA IF NOT EXISTS pgweir_local AUTHORIZATION pgweir_owner;
SET LOCAL ROLE pgweir_owner;
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE IF NOT EXISTS pgweir_local.applied (
	command_id uuid PRIMARY KEY,
	epoch      bigint NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS applied_at ON pgweir_local.applied (applied_at);

-- True: nobody has applied it yet, and from now on we have, if this transaction commits. Waits for another one that is
-- about it right now.
CREATE OR REPLACE FUNCTION pgweir_local.apply_once(of_command uuid, at_epoch bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO pgweir_local.applied (command_id, epoch) VALUES (of_command, at_epoch) ON CONFLICT (command_id) DO NOTHING;
	RETURN FOUND;
END $$;

-- Forgets old notes. Keep them for much longer than the control store keeps acked commands, and than any worker sleeps.
CREATE OR REPLACE FUNCTION pgweir_local.forget(older_than interval DEFAULT '90 days') RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	WITH gone AS (
		DELETE FROM pgweir_local.applied a WHERE a.applied_at < now() - older_than RETURNING 1
	) SELECT count(*) FROM gone
$$;

REVOKE ALL ON TABLE pgweir_local.applied FROM PUBLIC;
REVOKE ALL ON FUNCTION pgweir_local.apply_once, pgweir_local.forget FROM PUBLIC;
GRANT USAGE ON SCHEMA pgweir_local TO pgweir_drain;
GRANT EXECUTE ON FUNCTION pgweir_local.apply_once, pgweir_local.forget TO pgweir_drain;
COMMIT;
