-- What several functions need.

-- The clock of everything here. Tests put their own in its place.
CREATE OR REPLACE FUNCTION pgweir.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp()';

CREATE OR REPLACE FUNCTION pgweir.usec(at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS 'SELECT (extract(epoch FROM at) * 1000000)::bigint';

-- Begins whatever is told to a node as the truth. Its commit must be on disk before the answer leaves, however the
-- database is set, or a crash would take the epoch back. And it must look again after a lock it has waited for.
CREATE OR REPLACE FUNCTION pgweir.begin_truth() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE 'the control store works in READ COMMITTED only' USING ERRCODE = 'invalid_transaction_state';
	END IF;
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- The first command of a cluster that is not done.
CREATE OR REPLACE FUNCTION pgweir.first_open(of_cluster text) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
	SELECT q.seq FROM pgweir.commands q
	WHERE q.cluster = of_cluster AND q.state IN ('pending', 'claimed') ORDER BY q.seq LIMIT 1
$$;

CREATE OR REPLACE FUNCTION pgweir.end_of_queue(of_cluster text) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(max(q.seq), 0) FROM pgweir.commands q
	WHERE q.cluster = of_cluster AND q.state IN ('pending', 'claimed')
$$;

DO $$
BEGIN
	IF to_regtype('pgweir.answer') IS NULL THEN
		CREATE TYPE pgweir.answer AS (
			ok       boolean, -- it was done, by this call
			reason   text,    -- if not, why not: one word
			state    text,    -- and what holds now. NULL: there is no such cluster
			epoch    bigint,
			held     boolean,
			mark     bigint,
			open_seq bigint,  -- the first command that is not done; NULL: there is none
			since_us bigint,
			at_us    bigint   -- the store's clock
		);
	END IF;
END $$;

-- Every call about a cluster answers with this row, done or refused.
CREATE OR REPLACE FUNCTION pgweir.tell(of_cluster text, why text) RETURNS pgweir.answer
LANGUAGE sql VOLATILE AS $$
	SELECT why IS NULL, coalesce(why, ''), c.state, c.epoch, c.held, c.mark, pgweir.first_open(c.name),
		pgweir.usec(c.since), pgweir.usec(pgweir.clock())
	FROM (VALUES (true)) AS always LEFT JOIN pgweir.clusters c ON c.name = of_cluster
$$;
