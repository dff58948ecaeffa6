-- The roles of control-store.sql, applied.sql and fence-trigger.sql, which include this. Roles belong to the whole server,
-- so they may be there already.
DO $$
DECLARE
	wanted text;
BEGIN
	IF current_setting('server_version_num')::integer < 130000 THEN
		RAISE 'pgweir needs PostgreSQL 13 or later for this';
	END IF;
	FOREACH wanted IN ARRAY ARRAY['pgweir_owner', 'pgweir', 'pgweir_drain', 'pgweir_app'] LOOP
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
			EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
		END IF;
	END LOOP;
	-- A superuser may act for anyone; whoever else made the role has to be a member.
	IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
		EXECUTE format('GRANT pgweir_owner TO %I', current_user);
	END IF;
END $$;
