-- Who may what. PUBLIC nothing, a table nobody; what else an administrator has granted stays.

CREATE OR REPLACE VIEW pgweir.status AS
	SELECT c.name, c.state, c.epoch, c.since, c.held, c.mark, c.outage_only, c.changed_by, c.reason,
		(SELECT count(*) FROM pgweir.cursors u JOIN pgweir.nodes n USING (node)
			WHERE u.cluster = c.name AND n.lease_until > pgweir.clock()) AS nodes,
		(SELECT count(*) FROM pgweir.commands q WHERE q.cluster = c.name AND q.state IN ('pending', 'claimed')) AS open,
		(SELECT count(*) FROM pgweir.commands q WHERE q.cluster = c.name AND q.state = 'dead') AS dead
	FROM pgweir.clusters c;

REVOKE ALL ON ALL TABLES IN SCHEMA pgweir FROM PUBLIC, pgweir, pgweir_drain, pgweir_app;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgweir FROM PUBLIC, pgweir, pgweir_drain, pgweir_app;
GRANT USAGE ON SCHEMA pgweir TO pgweir, pgweir_drain, pgweir_app;

GRANT EXECUTE ON FUNCTION pgweir.standing, pgweir.queue TO pgweir, pgweir_drain, pgweir_app;
GRANT EXECUTE ON FUNCTION pgweir.poll, pgweir.leave, pgweir.slots, pgweir.open, pgweir.recover, pgweir.mark, pgweir.cutover,
	pgweir.fence, pgweir.unfence TO pgweir;
GRANT EXECUTE ON FUNCTION pgweir.claim, pgweir.ack, pgweir.fail, pgweir.release, pgweir.purge, pgweir.put_snapshot
	TO pgweir_drain;
GRANT EXECUTE ON FUNCTION pgweir.enqueue, pgweir.command, pgweir.get_snapshot TO pgweir_app;
GRANT SELECT ON pgweir.status TO pgweir;
-- In a view the caller needs the right to its functions.
GRANT EXECUTE ON FUNCTION pgweir.clock TO pgweir;
