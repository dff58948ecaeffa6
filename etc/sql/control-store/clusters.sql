-- The states of a cluster, and who may change them to what. Every change is a compare-and-set: it names the epoch it
-- was decided in, and is refused when that is not the current one.
--
--     PRIMARY --open--> DEGRADED --recover--> RECOVERING --cutover--> PRIMARY, next epoch
--                           ^------open-----------'  ^
--     any of them ----------------------fence--------'  held: only unfence leads out, to PRIMARY, next epoch
--
-- So within an epoch a cluster leaves PRIMARY once and does not come back: who has seen it in another state is fenced
-- for the rest of that epoch.

CREATE OR REPLACE FUNCTION pgweir.guard_cluster() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	wrong text;
BEGIN
	IF TG_OP IN ('DELETE', 'TRUNCATE') THEN
		wrong := 'a cluster is never deleted';
	ELSE
		wrong := CASE
			WHEN NEW.name <> OLD.name THEN 'a cluster is never renamed'
			WHEN NEW.epoch < OLD.epoch THEN format('its epoch never goes back, from %s to %s', OLD.epoch, NEW.epoch)
			WHEN NEW.mark < OLD.mark THEN 'its mark never goes back'
			WHEN NEW.state = 'PRIMARY' AND OLD.state <> 'PRIMARY' AND NEW.epoch = OLD.epoch
				THEN 'PRIMARY begins a new epoch'
			WHEN NEW.state = 'PRIMARY' AND OLD.state = 'PRIMARY' AND NEW.epoch <> OLD.epoch
				THEN 'an epoch begins behind a fence'
		END;
	END IF;
	IF wrong IS NOT NULL THEN
		RAISE 'cluster%: %', coalesce(' ' || quote_ident(OLD.name), 's'), wrong
			USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	NEW.changed_by := left(NEW.changed_by, 255);
	NEW.reason := left(NEW.reason, 500);
	RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION pgweir.note_cluster() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	last bigint;
BEGIN
	IF TG_OP = 'UPDATE' AND (NEW.state, NEW.epoch, NEW.held, NEW.mark) = (OLD.state, OLD.epoch, OLD.held, OLD.mark) THEN
		RETURN NULL;
	END IF;
	INSERT INTO pgweir.history (cluster, at, from_state, to_state, epoch, held, mark, changed_by, reason)
		VALUES (NEW.name, pgweir.clock(), CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.epoch, NEW.held,
			NEW.mark, NEW.changed_by, NEW.reason)
		RETURNING seq INTO last;
	DELETE FROM pgweir.history WHERE seq <= last - 100000;
	PERFORM pg_notify('pgweir', 'cluster ' || NEW.name);
	RETURN NULL;
END $$;

-- Also for a session_replication_role that passes triggers by.
DROP TRIGGER IF EXISTS guard ON pgweir.clusters;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON pgweir.clusters
	FOR EACH ROW EXECUTE FUNCTION pgweir.guard_cluster();
DROP TRIGGER IF EXISTS guard_all ON pgweir.clusters;
CREATE TRIGGER guard_all BEFORE TRUNCATE ON pgweir.clusters
	FOR EACH STATEMENT EXECUTE FUNCTION pgweir.guard_cluster();
DROP TRIGGER IF EXISTS note ON pgweir.clusters;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON pgweir.clusters
	FOR EACH ROW EXECUTE FUNCTION pgweir.note_cluster();
ALTER TABLE pgweir.clusters ENABLE ALWAYS TRIGGER guard, ENABLE ALWAYS TRIGGER guard_all;

CREATE OR REPLACE FUNCTION pgweir.standing(of_cluster text) RETURNS pgweir.answer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT * FROM pgweir.tell(of_cluster,
		CASE WHEN NOT EXISTS (SELECT FROM pgweir.clusters WHERE name = of_cluster) THEN 'unknown' END)
$$;

-- The breaker has opened. state_was is the state in which the failures were seen.
CREATE OR REPLACE FUNCTION pgweir.open(of_cluster text, at_epoch bigint, state_was text, by_node text, because text)
RETURNS pgweir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	c pgweir.clusters;
	why text;
BEGIN
	PERFORM pgweir.begin_truth();
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster FOR NO KEY UPDATE;
	why := CASE
		WHEN c.name IS NULL THEN 'unknown'
		WHEN c.epoch IS DISTINCT FROM at_epoch THEN 'epoch'
		WHEN c.held THEN 'held'
		WHEN c.state = 'DEGRADED' OR c.state IS DISTINCT FROM state_was THEN 'state'
	END;
	IF why IS NULL THEN
		UPDATE pgweir.clusters SET state = 'DEGRADED', since = pgweir.clock(), changed_by = by_node, reason = because
			WHERE name = c.name;
	END IF;
	RETURN pgweir.tell(of_cluster, why);
END $$;

-- The primary may be back: writes stay fenced, the queue is drained. Takes the high-water mark.
CREATE OR REPLACE FUNCTION pgweir.recover(of_cluster text, at_epoch bigint, by_node text) RETURNS pgweir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	c pgweir.clusters;
	why text;
BEGIN
	PERFORM pgweir.begin_truth();
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster FOR NO KEY UPDATE;
	why := CASE
		WHEN c.name IS NULL THEN 'unknown'
		WHEN c.epoch IS DISTINCT FROM at_epoch THEN 'epoch'
		WHEN c.state <> 'DEGRADED' THEN 'state'
	END;
	IF why IS NULL THEN
		UPDATE pgweir.clusters SET state = 'RECOVERING', since = pgweir.clock(), changed_by = by_node,
			reason = 'recovery begins', mark = greatest(c.mark, pgweir.end_of_queue(c.name)) WHERE name = c.name;
	END IF;
	RETURN pgweir.tell(of_cluster, why);
END $$;

-- Takes the high-water mark anew: what was queued since counts for the cutover, too.
CREATE OR REPLACE FUNCTION pgweir.mark(of_cluster text, at_epoch bigint, by_node text) RETURNS pgweir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	c pgweir.clusters;
	why text;
BEGIN
	PERFORM pgweir.begin_truth();
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster FOR NO KEY UPDATE;
	why := CASE
		WHEN c.name IS NULL THEN 'unknown'
		WHEN c.epoch IS DISTINCT FROM at_epoch THEN 'epoch'
		WHEN c.state <> 'RECOVERING' THEN 'state'
	END;
	IF why IS NULL THEN
		UPDATE pgweir.clusters SET changed_by = by_node, reason = 'mark taken anew',
			mark = greatest(c.mark, pgweir.end_of_queue(c.name)) WHERE name = c.name;
	END IF;
	RETURN pgweir.tell(of_cluster, why);
END $$;

-- By hand. Whatever the state and the epoch; again is no change.
CREATE OR REPLACE FUNCTION pgweir.fence(of_cluster text, by_node text, because text) RETURNS pgweir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	c pgweir.clusters;
BEGIN
	PERFORM pgweir.begin_truth();
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN pgweir.tell(of_cluster, 'unknown');
	END IF;
	IF NOT c.held THEN
		UPDATE pgweir.clusters SET state = 'RECOVERING', held = true, changed_by = by_node, reason = because,
			since = CASE c.state WHEN 'RECOVERING' THEN c.since ELSE pgweir.clock() END,
			mark = CASE c.state WHEN 'RECOVERING' THEN c.mark
				ELSE greatest(c.mark, pgweir.end_of_queue(c.name)) END
			WHERE name = c.name;
	END IF;
	RETURN pgweir.tell(of_cluster, NULL);
END $$;

-- What is left to drain before a cutover: NULL, or the reason for the refusal.
CREATE OR REPLACE FUNCTION pgweir.undrained(c pgweir.clusters) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	IF c.outage_only THEN
		-- Waits for those who are queuing right now, and a moment only: one of them may be asleep.
		PERFORM set_config('lock_timeout', '200ms', true);
		LOCK TABLE pgweir.commands IN SHARE MODE;
	END IF;
	RETURN CASE WHEN pgweir.first_open(c.name) <= CASE WHEN c.outage_only THEN 9223372036854775807 ELSE c.mark END
		THEN 'undrained' END;
EXCEPTION WHEN lock_not_available THEN
	RETURN 'busy';
END $$;

-- Whether a node may still believe in PRIMARY under this epoch: it has a lease, and has not told that it knows better.
CREATE OR REPLACE FUNCTION pgweir.unseen(c pgweir.clusters) RETURNS text
LANGUAGE sql VOLATILE AS $$
	SELECT 'unseen' FROM pgweir.cursors u JOIN pgweir.nodes n USING (node)
	WHERE u.cluster = c.name AND n.lease_until > pgweir.clock() AND NOT (u.epoch = c.epoch AND u.state <> 'PRIMARY')
	LIMIT 1
$$;

-- To PRIMARY and the next epoch, once. how: cutover, unfence or force.
CREATE OR REPLACE FUNCTION pgweir.next_epoch(of_cluster text, at_epoch bigint, by_node text, how text) RETURNS pgweir.answer
LANGUAGE plpgsql AS $$
DECLARE
	c pgweir.clusters;
	why text;
BEGIN
	PERFORM pgweir.begin_truth();
	LOCK TABLE pgweir.nodes IN SHARE MODE; -- see there; before the row, as poll() takes them
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster FOR NO KEY UPDATE;
	why := CASE
		WHEN c.name IS NULL THEN 'unknown'
		WHEN c.epoch IS DISTINCT FROM at_epoch THEN 'epoch'
		WHEN c.state <> 'RECOVERING' THEN 'state'
		WHEN c.held AND how = 'cutover' THEN 'held'
		ELSE coalesce(CASE WHEN how <> 'force' THEN pgweir.undrained(c) END, pgweir.unseen(c))
	END;
	IF why IS NULL THEN
		UPDATE pgweir.clusters SET state = 'PRIMARY', epoch = c.epoch + 1, held = false, since = pgweir.clock(),
			changed_by = by_node, reason = how WHERE name = c.name;
	END IF;
	RETURN pgweir.tell(of_cluster, why);
END $$;

CREATE OR REPLACE FUNCTION pgweir.cutover(of_cluster text, at_epoch bigint, by_node text DEFAULT NULL) RETURNS pgweir.answer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
	SELECT * FROM pgweir.next_epoch(of_cluster, at_epoch, by_node, 'cutover')
$$;

-- how: 'drained' goes by the rules of a cutover, 'force' does not ask for the queue.
CREATE OR REPLACE FUNCTION pgweir.unfence(of_cluster text, at_epoch bigint, by_node text, how text) RETURNS pgweir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
BEGIN
	IF how IS NULL OR how NOT IN ('drained', 'force') THEN
		RAISE 'unfence: drained or force, not %', coalesce(quote_literal(how), 'NULL')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	RETURN pgweir.next_epoch(of_cluster, at_epoch, by_node, CASE how WHEN 'force' THEN 'force' ELSE 'unfence' END);
END $$;
