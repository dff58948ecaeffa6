-- The third net, on the database that is protected: a trigger that refuses to write a row in a session whose pgweir.epoch
-- is not the current one (docs/continuity.md).
--
--     psql -d app -f fence-trigger.sql
--     psql -d app -c "SELECT pgweir_local.protect('orders')"        as the owner of the table
--
-- The current epoch is in pgweir_local.current. continuity-drain moves it on after a cutover (advance); by then no
-- transaction of the old epoch that wrote to a protected table is left, and none can begin. Until then writes under the
-- new epoch are refused, too (40001: try again). Running this again is no harm.

\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '3s';
\ir roles.sql
CREATE SCHEMA IF NOT EXISTS pgweir_local AUTHORIZATION pgweir_owner;
SET LOCAL ROLE pgweir_owner;
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE IF NOT EXISTS pgweir_local.current (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch bigint NOT NULL CHECK (epoch >= 1),
	since timestamptz NOT NULL DEFAULT now()
);
INSERT INTO pgweir_local.current (epoch) VALUES (1) ON CONFLICT (one) DO NOTHING;

CREATE OR REPLACE FUNCTION pgweir_local.guard_current() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND NEW.epoch >= OLD.epoch THEN
		RETURN NEW;
	END IF;
	RAISE 'the epoch never goes back' USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;
DROP TRIGGER IF EXISTS guard ON pgweir_local.current;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON pgweir_local.current
	FOR EACH ROW EXECUTE FUNCTION pgweir_local.guard_current();
DROP TRIGGER IF EXISTS guard_all ON pgweir_local.current;
CREATE TRIGGER guard_all BEFORE TRUNCATE ON pgweir_local.current
	FOR EACH STATEMENT EXECUTE FUNCTION pgweir_local.guard_current();

-- Moves the epoch on, never back, and says which is current then. Waits for the transactions that have written to a
-- protected table, three seconds at most (55P03: try again), and keeps others waiting for as long.
CREATE OR REPLACE FUNCTION pgweir_local.advance(to_epoch bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
	IF EXISTS (SELECT FROM pgweir_local.current WHERE epoch < to_epoch) THEN
		LOCK TABLE pgweir_local.current IN EXCLUSIVE MODE;
		UPDATE pgweir_local.current SET epoch = to_epoch, since = now() WHERE epoch < to_epoch;
	END IF;
	RETURN (SELECT epoch FROM pgweir_local.current);
END $$;

-- Whether a transaction may write under this epoch. The lock is held until the transaction ends, and keeps advance()
-- waiting: what passes here is committed in the epoch in which it passed. The note that it has passed goes with the
-- transaction, or the savepoint, and so does the lock.
CREATE OR REPLACE FUNCTION pgweir_local.pass(ours text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	now_is bigint;
BEGIN
	LOCK TABLE pgweir_local.current IN ROW SHARE MODE;
	IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
		SELECT epoch INTO now_is FROM pgweir_local.current FOR SHARE; -- 40001 if our snapshot has an old one
	ELSE
		SELECT epoch INTO now_is FROM pgweir_local.current;
	END IF;
	IF ours = now_is::text THEN
		PERFORM set_config('pgweir_local.passed', ours, true);
		RETURN;
	END IF;
	RAISE 'epoch % is current, and this session writes under %', now_is, coalesce(nullif(ours, ''), 'none')
		USING ERRCODE = 'serialization_failure';
END $$;

-- The trigger. With the argument 'stated' sessions that name no epoch pass.
CREATE OR REPLACE FUNCTION pgweir_local.check_epoch() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
	ours text := coalesce(pg_catalog.current_setting('pgweir.epoch', true), '');
BEGIN
	IF ours = '' THEN
		IF TG_ARGV[0] IS DISTINCT FROM 'stated' THEN
			PERFORM pgweir_local.pass(ours); -- to be refused
		END IF;
	ELSIF ours IS DISTINCT FROM pg_catalog.current_setting('pgweir_local.passed', true) THEN
		PERFORM pgweir_local.pass(ours);
	END IF;
	IF TG_OP = 'DELETE' THEN
		RETURN OLD;
	END IF;
	RETURN NEW;
END $$;

-- Puts a table under the trigger, partitions and all. unstated: 'refused', or 'passes' for sessions that name no epoch.
CREATE OR REPLACE FUNCTION pgweir_local.protect(which regclass, unstated text DEFAULT 'refused') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	argument text := CASE unstated WHEN 'refused' THEN '' WHEN 'passes' THEN quote_literal('stated') END;
BEGIN
	IF argument IS NULL THEN
		RAISE 'protect: refused or passes, not %', coalesce(quote_literal(unstated), 'NULL')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM pgweir_local.unprotect(which);
	EXECUTE format('CREATE TRIGGER pgweir_epoch BEFORE INSERT OR UPDATE OR DELETE ON %s
		FOR EACH ROW EXECUTE FUNCTION pgweir_local.check_epoch(%s)', which, argument);
	EXECUTE format('CREATE TRIGGER pgweir_epoch_all BEFORE TRUNCATE ON %s
		FOR EACH STATEMENT EXECUTE FUNCTION pgweir_local.check_epoch(%s)', which, argument);
END $$;

CREATE OR REPLACE FUNCTION pgweir_local.unprotect(which regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
	EXECUTE format('DROP TRIGGER IF EXISTS pgweir_epoch ON %s', which);
	EXECUTE format('DROP TRIGGER IF EXISTS pgweir_epoch_all ON %s', which);
END $$;

-- A trigger runs whoever writes; only who makes one needs the right to its function.
REVOKE ALL ON TABLE pgweir_local.current FROM PUBLIC;
REVOKE ALL ON FUNCTION pgweir_local.advance, pgweir_local.guard_current FROM PUBLIC;
GRANT USAGE ON SCHEMA pgweir_local TO PUBLIC;
GRANT SELECT ON pgweir_local.current TO PUBLIC;
GRANT EXECUTE ON FUNCTION pgweir_local.check_epoch, pgweir_local.pass TO PUBLIC;
GRANT EXECUTE ON FUNCTION pgweir_local.protect, pgweir_local.unprotect TO PUBLIC;
GRANT EXECUTE ON FUNCTION pgweir_local.advance TO pgweir_drain;
COMMIT;
