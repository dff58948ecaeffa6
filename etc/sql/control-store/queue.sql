-- The command queue. At least once is what a queue can promise; that the effect is there exactly once is made by whoever
-- applies a command: it notes the command's id on the primary in the same transaction (applied.sql, continuity-drain).
--
--     pending --claim--> claimed --ack--> acked
--        ^                  |--fail, and a lease that ends, up to seven times--> pending
--        '------release-----'--the eighth time--> dead --revive--> pending

-- The wait after the n-th failure: 15 s, then twice as long each time, up to an hour.
CREATE OR REPLACE FUNCTION pgweir.back_off(failures integer) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
	SELECT least(15 * 2 ^ least(failures - 1, 20), 3600) * interval '1 s'
$$;

-- Queues a command, or finds the one that was queued under the same key. Text that does not fit is refused with
-- 54000, a key that stands for another command with 23505, and with 55000 whatever comes to an outage_only cluster in PRIMARY.
CREATE OR REPLACE FUNCTION pgweir.enqueue(of_cluster text, with_key text, of_kind text, with_payload jsonb,
	for_org text DEFAULT NULL, with_id uuid DEFAULT NULL,
	OUT id uuid, OUT seq bigint, OUT state text, OUT fresh boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	now_at timestamptz := pgweir.clock();
	payload jsonb := coalesce(with_payload, '{}');
	c pgweir.clusters;
	q pgweir.commands;
BEGIN
	PERFORM pgweir.begin_truth();
	IF octet_length(payload::text) > 65536 THEN
		RAISE 'a command has at most 65536 bytes, not %', octet_length(payload::text)
			USING ERRCODE = 'program_limit_exceeded';
	END IF;
	LOCK TABLE pgweir.commands IN ROW EXCLUSIVE MODE; -- so that a cutover waits for us, or we see that it was
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster;
	IF NOT FOUND THEN
		RAISE 'there is no cluster %', quote_literal(of_cluster) USING ERRCODE = 'undefined_object';
	END IF;
	SELECT * INTO q FROM pgweir.commands WHERE cluster = of_cluster AND key = with_key;
	IF NOT FOUND THEN
		IF c.outage_only AND c.state = 'PRIMARY' THEN
			RAISE 'cluster % is PRIMARY in epoch %: nothing is queued', quote_ident(c.name), c.epoch
				USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Write to the primary.';
		END IF;
		INSERT INTO pgweir.commands (id, cluster, key, kind, org, payload, epoch, queued_at, due_at)
			VALUES (coalesce(with_id, gen_random_uuid()), of_cluster, with_key, of_kind, for_org, payload, c.epoch,
				now_at, now_at)
			ON CONFLICT (cluster, key) DO NOTHING RETURNING * INTO q;
		fresh := FOUND;
		IF fresh THEN
			PERFORM pg_notify('pgweir', 'queue ' || of_cluster);
		ELSE -- somebody else just has
			SELECT * INTO q FROM pgweir.commands WHERE cluster = of_cluster AND key = with_key;
		END IF;
	ELSE
		fresh := false;
	END IF;
	IF (q.kind, q.org, q.payload, coalesce(with_id, q.id)) IS DISTINCT FROM (of_kind, for_org, payload, q.id) THEN
		RAISE 'key % of cluster % stands for another command', quote_literal(with_key), quote_ident(of_cluster)
			USING ERRCODE = 'unique_violation';
	END IF;
	id := q.id;
	seq := q.seq;
	state := q.state;
END $$;

-- What became of a command. No row: never queued, or purged.
CREATE OR REPLACE FUNCTION pgweir.command(of_id uuid)
RETURNS TABLE (seq bigint, state text, attempts integer, due_at timestamptz, ended_at timestamptz, error text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT q.seq, q.state, q.attempts, q.due_at, q.ended_at, q.error FROM pgweir.commands q WHERE q.id = of_id
$$;

-- Takes commands that are due, oldest first. A claim is named by (id, claim) and ends with its lease. Commands of a
-- DEGRADED cluster are not given out: there is nothing to apply them to. One whose eighth lease has ended is dead.
CREATE OR REPLACE FUNCTION pgweir.claim(of_cluster text, by_worker text, with_lease_s integer DEFAULT 60,
	at_most integer DEFAULT 1)
RETURNS TABLE (id uuid, claim integer, seq bigint, kind text, org text, payload jsonb, attempt integer, epoch bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	now_at timestamptz := pgweir.clock();
	c pgweir.clusters;
BEGIN
	PERFORM pgweir.begin_truth();
	IF (with_lease_s BETWEEN 1 AND 3600) IS NOT TRUE OR (at_most BETWEEN 1 AND 1000) IS NOT TRUE THEN
		RAISE 'claim: a lease has 1 to 3600 seconds, a claim 1 to 1000 commands'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT * INTO c FROM pgweir.clusters WHERE name = of_cluster;
	IF NOT FOUND THEN
		RAISE 'there is no cluster %', quote_literal(of_cluster) USING ERRCODE = 'undefined_object';
	ELSIF c.state = 'DEGRADED' THEN
		RETURN;
	END IF;

	WITH lost AS MATERIALIZED (
		SELECT q.seq FROM pgweir.commands q WHERE q.cluster = of_cluster AND q.state = 'claimed'
			AND q.due_at <= now_at AND q.attempts >= 8 FOR UPDATE SKIP LOCKED
	) UPDATE pgweir.commands q SET state = 'dead', ended_at = now_at, error = 'its eighth lease has ended'
		FROM lost WHERE q.seq = lost.seq;

	RETURN QUERY
	WITH due AS MATERIALIZED (
		SELECT q.seq FROM pgweir.commands q WHERE q.cluster = of_cluster AND q.state IN ('pending', 'claimed')
			AND q.due_at <= now_at AND q.attempts < 8 ORDER BY q.seq LIMIT at_most FOR UPDATE SKIP LOCKED
	), taken AS (
		UPDATE pgweir.commands q SET state = 'claimed', attempts = q.attempts + 1, claims = q.claims + 1,
			claimed_by = left(by_worker, 255), due_at = now_at + with_lease_s * interval '1 s'
			FROM due WHERE q.seq = due.seq RETURNING q.*
	) SELECT t.id, t.claims, t.seq, t.kind, t.org, t.payload, t.attempts, c.epoch FROM taken t ORDER BY t.seq;
END $$;

-- The claim is held now: ours, and its lease has not ended.
CREATE OR REPLACE FUNCTION pgweir.claimed(of_id uuid, with_claim integer) RETURNS pgweir.commands
LANGUAGE sql VOLATILE AS $$
	SELECT * FROM pgweir.commands q WHERE q.id = of_id AND q.claims = with_claim AND q.state = 'claimed'
		AND q.due_at > pgweir.clock() FOR UPDATE
$$;

-- The command was applied. False: the claim was lost, and the command is, or will be, somebody else's. Saying it
-- again is no harm.
CREATE OR REPLACE FUNCTION pgweir.ack(of_id uuid, with_claim integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	q pgweir.commands := pgweir.claimed(of_id, with_claim);
BEGIN
	PERFORM pgweir.begin_truth();
	IF q.seq IS NULL THEN
		RETURN EXISTS (SELECT FROM pgweir.commands k WHERE k.id = of_id AND k.claims = with_claim AND k.state = 'acked');
	END IF;
	UPDATE pgweir.commands SET state = 'acked', ended_at = pgweir.clock(), error = NULL WHERE seq = q.seq;
	PERFORM pg_notify('pgweir', 'queue ' || q.cluster);
	RETURN true;
END $$;

-- The command could not be applied, by a fault of its own: it is tried again after a wait, and dead after the eighth.
CREATE OR REPLACE FUNCTION pgweir.fail(of_id uuid, with_claim integer, because text,
	OUT ok boolean, OUT state text, OUT due_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	now_at timestamptz := pgweir.clock();
	q pgweir.commands := pgweir.claimed(of_id, with_claim);
BEGIN
	PERFORM pgweir.begin_truth();
	ok := q.seq IS NOT NULL;
	IF q.attempts >= 8 THEN
		UPDATE pgweir.commands SET state = 'dead', ended_at = now_at, error = left(because, 2000) WHERE seq = q.seq;
	ELSIF ok THEN
		UPDATE pgweir.commands SET state = 'pending', error = left(because, 2000),
			due_at = now_at + pgweir.back_off(q.attempts) WHERE seq = q.seq;
	END IF;
	SELECT k.state, k.due_at INTO state, due_at FROM pgweir.commands k WHERE k.id = of_id;
END $$;

-- The command was not applied, and not by its own fault (the primary is away, the epoch is over): the attempt does not
-- count.
CREATE OR REPLACE FUNCTION pgweir.release(of_id uuid, with_claim integer, because text, wait_s integer DEFAULT 1)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	q pgweir.commands := pgweir.claimed(of_id, with_claim);
BEGIN
	PERFORM pgweir.begin_truth();
	UPDATE pgweir.commands SET state = 'pending', attempts = q.attempts - 1, error = left(because, 2000),
		due_at = pgweir.clock() + least(greatest(wait_s, 0), 3600) * interval '1 s' WHERE seq = q.seq;
	RETURN FOUND;
END $$;

-- A dead command is tried again, eight times. For the operator: it may be older than what was written since.
CREATE OR REPLACE FUNCTION pgweir.revive(of_id uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM pgweir.begin_truth();
	UPDATE pgweir.commands SET state = 'pending', attempts = 0, ended_at = NULL, due_at = pgweir.clock()
		WHERE id = of_id AND state = 'dead';
	RETURN FOUND;
END $$;

-- Forgets acked commands, and with them their keys. Says how many.
CREATE OR REPLACE FUNCTION pgweir.purge(older_than interval DEFAULT '7 days') RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	WITH gone AS (
		DELETE FROM pgweir.commands q WHERE q.state = 'acked' AND q.ended_at < pgweir.clock() - older_than RETURNING 1
	) SELECT count(*) FROM gone
$$;

-- For metrics: it counts, so not every second.
CREATE OR REPLACE FUNCTION pgweir.queue(of_cluster text, OUT depth bigint, OUT claimed bigint, OUT dead bigint,
	OUT oldest_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT count(*), count(*) FILTER (WHERE q.state = 'claimed'),
		(SELECT count(*) FROM pgweir.commands k WHERE k.cluster = of_cluster AND k.state = 'dead'),
		coalesce((extract(epoch FROM pgweir.clock() - min(q.queued_at)) * 1000)::bigint, 0)
	FROM pgweir.commands q WHERE q.cluster = of_cluster AND q.state IN ('pending', 'claimed')
$$;
