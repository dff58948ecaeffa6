-- What applications may read while the primary is away, put here by whoever can read it while it is there.

-- version grows with what is in the snapshot (an LSN, a counter of the row's), so that a late writer does not put the old
-- in the place of the new. An answer: done, 'epoch' or 'stale'.
CREATE OR REPLACE FUNCTION pgweir.put_snapshot(of_cluster text, at_epoch bigint, with_key text, with_version bigint,
	with_payload jsonb, OUT ok boolean, OUT reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF octet_length(with_payload::text) > 262144 THEN
		RAISE 'a snapshot has at most 262144 bytes, not %', octet_length(with_payload::text)
			USING ERRCODE = 'program_limit_exceeded';
	END IF;
	ok := EXISTS (SELECT FROM pgweir.clusters c WHERE c.name = of_cluster AND c.epoch = at_epoch);
	IF NOT ok THEN
		reason := 'epoch';
		RETURN;
	END IF;
	INSERT INTO pgweir.snapshots AS s (cluster, key, version, epoch, taken_at, payload)
		VALUES (of_cluster, with_key, with_version, at_epoch, pgweir.clock(), with_payload)
		ON CONFLICT (cluster, key) DO UPDATE SET version = EXCLUDED.version, epoch = EXCLUDED.epoch,
			taken_at = EXCLUDED.taken_at, payload = EXCLUDED.payload
		WHERE (s.epoch, s.version) <= (EXCLUDED.epoch, EXCLUDED.version);
	ok := FOUND;
	reason := CASE WHEN ok THEN '' ELSE 'stale' END;
END $$;

CREATE OR REPLACE FUNCTION pgweir.get_snapshot(of_cluster text, with_key text)
RETURNS TABLE (payload jsonb, version bigint, epoch bigint, taken_at timestamptz, age_s double precision)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT s.payload, s.version, s.epoch, s.taken_at, extract(epoch FROM pgweir.clock() - s.taken_at)::double precision
	FROM pgweir.snapshots s WHERE s.cluster = of_cluster AND s.key = with_key
$$;
