-- What the store holds. Included by control-store.sql, as are all files beside this one.
-- A column that is added later needs an ALTER TABLE ... ADD COLUMN IF NOT EXISTS behind its table.

CREATE TABLE IF NOT EXISTS pgweir.store (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL
);

DO $$
BEGIN
	IF EXISTS (SELECT FROM pgweir.store WHERE version > 1) THEN
		RAISE 'this control store was made by a newer pgweir';
	END IF;
	INSERT INTO pgweir.store (version) VALUES (1) ON CONFLICT (one) DO UPDATE SET version = EXCLUDED.version;
END $$;

-- A cluster is never deleted: its epoch would begin anew. guard_cluster() has the rules of a change.
CREATE TABLE IF NOT EXISTS pgweir.clusters (
	name       text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:-]{1,64}$'),
	state      text NOT NULL CHECK (state IN ('PRIMARY', 'DEGRADED', 'RECOVERING')),
	epoch      bigint NOT NULL CHECK (epoch >= 1),
	since      timestamptz NOT NULL,               -- of the state
	held       boolean NOT NULL DEFAULT false,     -- by an operator's FENCE
	mark       bigint NOT NULL DEFAULT 0,          -- high-water mark: the queue is drained when all up to this seq is done
	outage_only boolean NOT NULL DEFAULT false,    -- nothing is queued in PRIMARY, and all of the queue counts for a cutover
	max_slots  integer CHECK (max_slots >= 0),     -- servers that all nodes together may open; NULL: nobody counts
	changed_by text,                               -- node or operator
	reason     text,
	CHECK (NOT held OR state = 'RECOVERING')
);

-- Every change of a cluster; the last hundred thousand are kept.
CREATE TABLE IF NOT EXISTS pgweir.history (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	cluster    text NOT NULL REFERENCES pgweir.clusters,
	at         timestamptz NOT NULL,
	from_state text,
	to_state   text NOT NULL,
	epoch      bigint NOT NULL,
	held       boolean NOT NULL,
	mark       bigint NOT NULL,
	changed_by text,
	reason     text
);

-- An epoch begins once.
CREATE UNIQUE INDEX IF NOT EXISTS history_epoch ON pgweir.history (cluster, epoch) WHERE to_state = 'PRIMARY';

-- A node is one run of a pgweir process. poll() writes here first of all, and a cutover locks the table: so no
-- poll can tell a node of the old epoch while a cutover looks for nodes that have not seen the fence.
CREATE TABLE IF NOT EXISTS pgweir.nodes (
	node        text PRIMARY KEY CHECK (octet_length(node) BETWEEN 1 AND 255),
	first_at    timestamptz NOT NULL,
	seen_at     timestamptz NOT NULL,
	lease_ms    integer NOT NULL CHECK (lease_ms BETWEEN 1 AND 3600000),
	lease_until timestamptz NOT NULL
) WITH (fillfactor = 50, vacuum_truncate = off);

-- What a node had in force when it last polled. Epoch 0: nothing yet.
CREATE TABLE IF NOT EXISTS pgweir.cursors (
	node    text REFERENCES pgweir.nodes ON DELETE CASCADE,
	cluster text REFERENCES pgweir.clusters,
	epoch   bigint NOT NULL,
	state   text NOT NULL,
	at      timestamptz NOT NULL,
	PRIMARY KEY (node, cluster)
);
CREATE INDEX IF NOT EXISTS cursors_cluster ON pgweir.cursors (cluster);

-- Servers that a node may have open at a cluster.
CREATE TABLE IF NOT EXISTS pgweir.slot_leases (
	cluster     text REFERENCES pgweir.clusters,
	node        text CHECK (octet_length(node) BETWEEN 1 AND 255),
	wanted      integer NOT NULL CHECK (wanted >= 0),
	slots       integer NOT NULL CHECK (slots >= 0), -- what counts: granted, or still held
	lease_until timestamptz NOT NULL,
	PRIMARY KEY (cluster, node)
);

-- The command queue. pending -> claimed -> acked, or back to pending, or dead.
CREATE TABLE IF NOT EXISTS pgweir.commands (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which they are claimed
	id         uuid NOT NULL UNIQUE,
	cluster    text NOT NULL REFERENCES pgweir.clusters,
	key        text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255), -- idempotency key
	kind       text NOT NULL CHECK (kind ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'),
	org        text CHECK (org ~ '^[A-Za-z0-9_.:-]{1,64}$'),
	payload    jsonb NOT NULL CHECK (octet_length(payload::text) <= 65536),
	state      text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'claimed', 'acked', 'dead')),
	epoch      bigint NOT NULL,            -- in which it was queued
	queued_at  timestamptz NOT NULL,
	due_at     timestamptz NOT NULL,       -- may be claimed from then; for a claimed one the end of its lease
	attempts   integer NOT NULL DEFAULT 0, -- that count
	claims     integer NOT NULL DEFAULT 0, -- the number of the claim: only the newest can end it
	claimed_by text,
	ended_at   timestamptz,
	error      text,
	UNIQUE (cluster, key),
	CHECK ((state IN ('acked', 'dead')) = (ended_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS commands_open ON pgweir.commands (cluster, seq, due_at) WHERE state IN ('pending', 'claimed');
CREATE INDEX IF NOT EXISTS commands_dead ON pgweir.commands (cluster, seq) WHERE state = 'dead';
CREATE INDEX IF NOT EXISTS commands_acked ON pgweir.commands (ended_at) WHERE state = 'acked';

-- What applications may read while the primary is away.
CREATE TABLE IF NOT EXISTS pgweir.snapshots (
	cluster  text REFERENCES pgweir.clusters,
	key      text CHECK (octet_length(key) BETWEEN 1 AND 255),
	version  bigint NOT NULL,
	epoch    bigint NOT NULL,
	taken_at timestamptz NOT NULL,
	payload  jsonb NOT NULL CHECK (octet_length(payload::text) <= 262144),
	PRIMARY KEY (cluster, key)
);
