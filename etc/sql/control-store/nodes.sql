-- What a pgweir instance calls while all is well: its heartbeat, which is its lease, and its share of the slots.

-- One call a second. by_node is another one for each run of a process; with_lease_ms its fence_lease; seen a line
-- "<cluster> <epoch> <state>" for each cluster it serves, with what this store told it last (epoch 0: nothing yet).
-- The answer is the store's clock and, for each of these clusters, a line
--
--     <cluster> <epoch> <state> <held: 0 or 1> <since_us> <mark> <open_seq, 0: none>
--
-- The lease counts from when the caller sent the call, so it ends before lease_until does.
-- A cluster that is not known yet begins here. One of which a node knows more than the store does was lost to an old
-- backup, or to a standby that lagged: it goes on in the node's epoch, fenced.
CREATE OR REPLACE FUNCTION pgweir.poll(by_node text, with_lease_ms integer, seen text, OUT at_us bigint, OUT clusters text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	now_at timestamptz := pgweir.clock();
	lines text[] := string_to_array(rtrim(seen, E'\n'), E'\n');
	names text[];
	epochs bigint[];
	states text[];
BEGIN
	PERFORM pgweir.begin_truth();
	IF EXISTS (SELECT FROM unnest(lines) line WHERE line !~ '^[A-Za-z0-9_.:-]{1,64} [0-9]{1,18} [A-Z]{1,16}$') THEN
		RAISE 'poll: a line is not <cluster> <epoch> <state>' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT array_agg(split_part(line, ' ', 1)), array_agg(split_part(line, ' ', 2)::bigint),
		array_agg(split_part(line, ' ', 3)) INTO names, epochs, states FROM unnest(lines) line;

	-- Before all else: from here to the commit no cutover goes on.
	INSERT INTO pgweir.nodes AS n (node, first_at, seen_at, lease_ms, lease_until)
		VALUES (by_node, now_at, now_at, with_lease_ms, now_at + with_lease_ms * interval '1 ms')
		ON CONFLICT (node) DO UPDATE SET seen_at = now_at, lease_ms = with_lease_ms,
			-- A lease that got shorter holds from the next call on: the answer to this one may be lost.
			lease_until = now_at + greatest(n.lease_ms, with_lease_ms) * interval '1 ms';

	INSERT INTO pgweir.clusters (name, state, epoch, since, changed_by, reason)
		SELECT s.name, 'PRIMARY', greatest(s.epoch, 1), now_at, by_node, 'first poll'
		FROM unnest(names, epochs) AS s (name, epoch)
		WHERE NOT EXISTS (SELECT FROM pgweir.clusters c WHERE c.name = s.name)
		ON CONFLICT (name) DO NOTHING;
	UPDATE pgweir.clusters c SET epoch = s.epoch, state = 'RECOVERING', since = now_at, changed_by = by_node,
			reason = 'the store knew less than a node', mark = greatest(c.mark, pgweir.end_of_queue(c.name))
		FROM unnest(names, epochs, states) AS s (name, epoch, state)
		WHERE c.name = s.name
			AND (s.epoch > c.epoch OR s.epoch = c.epoch AND c.state = 'PRIMARY' AND s.state <> 'PRIMARY');

	DELETE FROM pgweir.cursors u WHERE u.node = by_node AND u.cluster <> ALL (coalesce(names, '{}'));
	INSERT INTO pgweir.cursors AS u (node, cluster, epoch, state, at)
		SELECT by_node, s.name, s.epoch, s.state, now_at FROM unnest(names, epochs, states) AS s (name, epoch, state)
		WHERE NOT EXISTS (SELECT FROM pgweir.cursors k WHERE k.node = by_node AND k.cluster = s.name
			AND k.epoch = s.epoch AND k.state = s.state)
		ON CONFLICT (node, cluster) DO UPDATE SET epoch = EXCLUDED.epoch, state = EXCLUDED.state, at = now_at;
	IF FOUND THEN -- seldom, so the moment to forget who is long gone
		DELETE FROM pgweir.nodes n WHERE n.lease_until < now_at - interval '1 day';
		DELETE FROM pgweir.slot_leases l WHERE l.lease_until < now_at - interval '1 day';
	END IF;

	at_us := pgweir.usec(now_at);
	SELECT coalesce(string_agg(concat_ws(' ', c.name, c.epoch, c.state, c.held::integer, pgweir.usec(c.since), c.mark,
			coalesce(pgweir.first_open(c.name), 0)), E'\n' ORDER BY c.name), '')
		INTO clusters FROM pgweir.clusters c WHERE c.name = ANY (names);
END $$;

-- A node that has closed all its servers ends its leases, so that nobody waits for them.
CREATE OR REPLACE FUNCTION pgweir.leave(by_node text) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
	DELETE FROM pgweir.slot_leases WHERE node = by_node;
	WITH gone AS (DELETE FROM pgweir.nodes WHERE node = by_node RETURNING 1) SELECT EXISTS (SELECT FROM gone);
$$;

-- How many servers a node may have open, so that all nodes together stay within the cluster's max_slots. now_held it
-- has open, now_wanted it could use, and both in one call renew the lease; without one it must close them. What it
-- holds counts until it says that it has let go. Everybody is due an equal share, and what one does not want is lent to
-- others until it does. max_slots NULL: as many as wanted.
CREATE OR REPLACE FUNCTION pgweir.slots(of_cluster text, by_node text, now_held integer, now_wanted integer,
	with_lease_ms integer, OUT granted integer, OUT at_us bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
	now_at timestamptz := pgweir.clock();
	most integer;
	taken bigint;
	share integer;
	short boolean;
BEGIN
	PERFORM pgweir.begin_truth();
	-- The lock, so that one at a time reckons.
	SELECT c.max_slots INTO most FROM pgweir.clusters c WHERE c.name = of_cluster FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE 'slots: no cluster %', quote_literal(of_cluster) USING ERRCODE = 'undefined_object';
	END IF;
	SELECT coalesce(sum(l.slots), 0), most / (count(*) + 1) INTO taken, share FROM pgweir.slot_leases l
		WHERE l.cluster = of_cluster AND l.node <> by_node AND l.lease_until > now_at;
	SELECT EXISTS (SELECT FROM pgweir.slot_leases l WHERE l.cluster = of_cluster AND l.node <> by_node
		AND l.lease_until > now_at AND l.slots < least(l.wanted, share)) INTO short;
	granted := greatest(0, least(now_wanted, most - taken, CASE WHEN short THEN share END));
	INSERT INTO pgweir.slot_leases (cluster, node, wanted, slots, lease_until)
		VALUES (of_cluster, by_node, now_wanted, greatest(granted, now_held), now_at + with_lease_ms * interval '1 ms')
		ON CONFLICT (cluster, node) DO UPDATE SET wanted = EXCLUDED.wanted, slots = EXCLUDED.slots,
			lease_until = EXCLUDED.lease_until;
	at_us := pgweir.usec(now_at);
END $$;
