/* The JDBC driver with HikariCP: prepareThreshold=1 and autosave=always for every second org, the defaults for the others. */

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;
import org.postgresql.jdbc.AutoSave;

public class DriveJdbc {
	static final int POOL = 3;
	static final String ALPHABET = "abcdefghijklmnopqrstuvwxyz'\"$;:,.é ";
	/* The driver wants DateStyle to begin with ISO. */
	static final String[] STYLES = {"ISO, MDY", "ISO, DMY", "ISO, YMD"};
	static final String[] PATHS = {"\"$user\", public", "pools, public", "public, pools"};
	static final String[] LIMITS = {"0", "5min", "400s"};
	static final String[] ZONES = {"UTC", "America/New_York", "Asia/Kolkata"};
	static final Map<String, String> INSTANTS = Map.of("UTC", "2020-07-01 12:00:00+00", "America/New_York", "2020-07-01 08:00:00-04",
		"Asia/Kolkata", "2020-07-01 17:30:00+05:30");
	static final String WHO = "select current_setting('application_name'), current_setting('TimeZone'), current_setting('DateStyle'), "
		+ "'2020-07-01 12:00:00+00'::timestamptz::text, current_setting('search_path'), current_setting('statement_timeout'), "
		+ "coalesce(current_setting('app.who', true), '')";
	static final String ROW = "insert into pools.line values (?, ?, ?, ?, ?)";
	static final String OWN = "select worker, n, org, body, sum from pools.line where worker = ? order by n";

	static String host, port, database, password, seed;
	static long end;

	/* What all workers count, and the one signal to stop. */
	static final Map<String, AtomicLong> acts = new ConcurrentHashMap<>(), errors = new ConcurrentHashMap<>();
	static final AtomicLong transactions = new AtomicLong();
	static final ConcurrentLinkedQueue<String> faults = new ConcurrentLinkedQueue<>();

	static void count(Map<String, AtomicLong> counts, String name) {
		counts.computeIfAbsent(name, any -> new AtomicLong()).incrementAndGet();
	}

	static String md5(String text) {
		try {
			StringBuilder hex = new StringBuilder();
			for (byte b : MessageDigest.getInstance("MD5").digest(text.getBytes(StandardCharsets.UTF_8)))
				hex.append(String.format("%02x", b));
			return hex.toString();
		} catch (java.security.NoSuchAlgorithmException never) {
			throw new IllegalStateException(never);
		}
	}

	static class Wrong extends IllegalStateException {
		Wrong(String text) {
			super(text);
		}
	}

	static void same(Object got, Object want, String what) {
		if (!Objects.equals(got, want))
			throw new Wrong(what + ": got " + shortened(got) + ", want " + shortened(want));
	}

	static String shortened(Object value) {
		String text = String.valueOf(value);
		return text.substring(0, Math.min(500, text.length()));
	}

	/* The settings of one connection, as its user knows them. */
	static class Session {
		final String name, zone, style, path, limit, who;

		Session(String name, String zone, String style, String path, String limit, String who) {
			this.name = name;
			this.zone = zone;
			this.style = style;
			this.path = path;
			this.limit = limit;
			this.who = who;
		}

		/* Settings to change to; the part of the name that tells the org stays. */
		Session other(Random rng) {
			String kept = name.substring(0, name.indexOf(':', name.indexOf("org=")) + 1);
			return new Session(kept + rng.nextInt(1000) + "'x", ZONES[rng.nextInt(3)], STYLES[rng.nextInt(3)], PATHS[rng.nextInt(3)],
				LIMITS[rng.nextInt(3)], "" + rng.nextInt(1000));
		}

		String[] commands(String local) {
			return new String[] {"set " + local + " application_name = '" + name.replace("'", "''") + "'",
				"set " + local + " TimeZone to '" + zone + "'", "set " + local + " datestyle = " + style,
				"set " + local + " search_path to " + path, "set " + local + " statement_timeout to '" + limit + "'",
				"set " + local + " app.who to '" + who + "'"};
		}

		/* What WHO answers. */
		List<Object> row() {
			return List.of(name, zone, style, INSTANTS.get(zone), path, limit, who);
		}
	}

	/* Those of the pool's connections, by the driver's own below Hikari's. */
	static final Map<Object, Session> sessions = Collections.synchronizedMap(new java.util.WeakHashMap<>());

	static class Step {
		final String command;
		final List<List<Object>> answer; /* null: none */

		Step(String command, Object[]... rows) {
			this.command = command;
			answer = rows.length == 0 ? null : new ArrayList<>();
			for (Object[] row : rows)
				answer.add(List.of(row));
		}
	}

	static Object[] row(Object... values) {
		return values;
	}

	/* What stays with the session from one transaction to the next: statements, and what they answer if they do, four times. */
	static Step[][] holds(String worker) {
		int k = Integer.parseInt(md5(worker).substring(0, 7), 16);
		String locks = "select count(*)::text from pg_locks where locktype = 'advisory' and objid = " + k;
		return new Step[][] {
			{new Step("create temp table mine as select '" + worker + "'::text as w, n from generate_series(1, 5) n"),
				new Step("insert into mine values ('" + worker + "', 6)"),
				new Step("select count(*)::text, min(w), max(w) from mine", row("6", worker, worker)), new Step("drop table mine")},
			{new Step("select pg_advisory_lock(" + k + ")::text", row("")), new Step(locks, row("1")),
				new Step("select pg_advisory_unlock(" + k + ")::text", row("true")), new Step(locks, row("0"))},
			{new Step("prepare mine (int) as select ($1 + " + k + ")::text"), new Step("execute mine (1)", row("" + (k + 1))),
				new Step("execute mine (2)", row("" + (k + 2))), new Step("deallocate mine")},
			{new Step("declare mine cursor with hold for select n::text from generate_series(1, 5) n"),
				new Step("fetch 2 from mine", row("1"), row("2")), new Step("fetch 2 from mine", row("3"), row("4")),
				new Step("close mine")},
		};
	}

	/* All that one worker has committed. */
	static class Ledger {
		final String worker, org;
		final Random rng;
		long counter, next = 1;
		final TreeMap<Long, List<Object>> rows = new TreeMap<>();

		Ledger(String worker, String org, Random rng) {
			this.worker = worker;
			this.org = org;
			this.rng = rng;
		}

		String text(int length) {
			StringBuilder text = new StringBuilder();
			for (int i = 0; i < length; i++)
				text.append(ALPHABET.charAt(rng.nextInt(ALPHABET.length())));
			return text.toString();
		}

		List<Object> newRow(long ahead) {
			long n = next + ahead;
			String body = text(rng.nextInt(60));
			if (rng.nextInt(50) == 0)
				body = body.repeat(300) + ".";
			return List.of(worker, n, org, body, md5(worker + "|" + n + "|" + body));
		}

		List<List<Object>> newRows(int count) {
			List<List<Object>> all = new ArrayList<>();
			for (int ahead = 0; ahead < count; ahead++)
				all.add(newRow(ahead));
			return all;
		}

		void keep(List<Object> row) {
			long n = (Long)row.get(1);
			rows.put(n, row);
			next = Math.max(next, n + 1);
		}

		void check(List<List<Object>> got) {
			List<Object> numbers = new ArrayList<>();
			for (List<Object> row : got)
				numbers.add(row.get(1));
			same(numbers, new ArrayList<Object>(rows.keySet()), "numbers of the rows");
			for (List<Object> row : got)
				same(row, rows.get(row.get(1)), "row");
		}

		String account() {
			StringBuilder digest = new StringBuilder();
			rows.forEach((n, row) -> digest.append(n).append(':').append(row.get(4)).append(';'));
			return String.format("{\"worker\": \"%s\", \"org\": \"%s\", \"counter\": %d, \"rows\": %d, \"digest\": \"%s\"}", worker,
				org, counter, rows.size(), md5(digest.toString()));
		}
	}

	/* What may fail with an SQLSTATE. */
	interface Action {
		void run() throws SQLException, IOException, InterruptedException;
	}

	interface Act {
		int run(Connection client) throws SQLException, IOException, InterruptedException;
	}

	static class Work extends Thread {
		final Ledger ledger;
		final String org;
		final Random rng;
		final HikariDataSource pool;
		final Session start;
		final Map<String, Act> all = new TreeMap<>();
		volatile String act = "begin";
		volatile int done;

		Work(String org, int place, HikariDataSource pool, Session start) {
			String name = database + "-" + org + "-" + place;
			this.org = org;
			this.pool = pool;
			this.start = start;
			rng = new Random((seed + "/" + name).hashCode());
			ledger = new Ledger(name, org, rng);
			setDaemon(true);
			all.put("add", this::add);
			all.put("move", this::move);
			all.put("undo", this::undo);
			all.put("save", this::save);
			all.put("fail", this::fail);
			all.put("look", this::look);
			all.put("who", this::who);
			all.put("set", this::set);
			all.put("tryset", this::tryset);
			all.put("copy", this::copy);
			all.put("cancel", this::cancel);
			all.put("timeout", this::timeout);
			all.put("large", this::large);
			all.put("adhoc", this::adhoc);
			all.put("batch", this::batch);
			all.put("hold", this::hold);
			all.put("trim", this::trim);
			all.put("leave", this::leave);
		}

		String where() {
			return ledger.worker + ", act " + act + " (number " + done + "), seed " + seed;
		}

		@Override
		public void run() {
			try {
				play("begin", client -> change(client, "insert into pools.counter values (?, ?, 0)", ledger.worker, org));
				List<String> once = new ArrayList<>(all.keySet());
				Collections.shuffle(once, rng);
				for (String name : once)
					play(name, all.get(name));
				List<String> likely = new ArrayList<>();
				for (String name : once)
					likely.addAll(Collections.nCopies(List.of("cancel", "timeout", "leave", "large").contains(name) ? 1 : 6, name));
				while (System.nanoTime() < end && faults.isEmpty()) {
					String name = likely.get(rng.nextInt(likely.size()));
					play(name, all.get(name));
				}
				play("look", all.get("look"));
				act = null;
			} catch (Throwable failure) {
				StringWriter trace = new StringWriter();
				failure.printStackTrace(new java.io.PrintWriter(trace));
				faults.add(where() + "\n" + (failure instanceof SQLException ? ((SQLException)failure).getSQLState() : "") + " " + trace);
			}
		}

		/* One act with a connection of the pool; Hikari sets autocommit back. */
		void play(String name, Act what) throws SQLException, IOException, InterruptedException {
			if (!faults.isEmpty())
				return;
			act = name;
			done++;
			try (Connection client = pool.getConnection()) {
				int count = what.run(client);
				if (!name.equals("begin")) {
					count(acts, name);
					transactions.addAndGet(count);
				}
			}
		}

		void expect(String code, Action action) throws SQLException, IOException, InterruptedException {
			try {
				action.run();
			} catch (SQLException failure) {
				/* a batch says why in what follows */
				if (!code.equals(failure.getSQLState()))
					throw failure;
				count(errors, code);
				return;
			}
			throw new Wrong("no error where " + code + " was due");
		}

		void fill(PreparedStatement statement, Object... values) throws SQLException {
			for (int i = 0; i < values.length; i++)
				statement.setObject(i + 1, values[i]);
		}

		List<List<Object>> rowsOf(ResultSet result) throws SQLException {
			List<List<Object>> rows = new ArrayList<>();
			int columns = result.getMetaData().getColumnCount();
			while (result.next()) {
				List<Object> row = new ArrayList<>();
				for (int i = 1; i <= columns; i++)
					row.add(result.getObject(i));
				rows.add(row);
			}
			return rows;
		}

		List<List<Object>> ask(Connection client, String sql, Object... values) throws SQLException {
			try (PreparedStatement statement = client.prepareStatement(sql)) {
				fill(statement, values);
				try (ResultSet result = statement.executeQuery()) {
					return rowsOf(result);
				}
			}
		}

		int change(Connection client, String sql, Object... values) throws SQLException {
			try (PreparedStatement statement = client.prepareStatement(sql)) {
				fill(statement, values);
				return statement.executeUpdate();
			}
		}

		void say(Connection client, String... commands) throws SQLException {
			try (Statement statement = client.createStatement()) {
				for (String command : commands)
					statement.execute(command);
			}
		}

		void insert(Connection client, List<Object> row) throws SQLException {
			same(change(client, ROW, row.toArray()), 1, "inserted rows");
		}

		/* The counter as it must be, and one more; nothing is committed yet. */
		void countUp(Connection client) throws SQLException {
			same(ask(client, "select n, org from pools.counter where worker = ? for update", ledger.worker),
				List.of(List.of(ledger.counter, org)), "counter");
			same(ask(client, "update pools.counter set n = n + 1 where worker = ? returning n", ledger.worker),
				List.of(List.of(ledger.counter + 1)), "counter + 1");
		}

		void isUsable(Connection client) throws SQLException {
			same(ask(client, "select ?::text", ledger.worker), List.of(List.of(ledger.worker)), "after an error");
		}

		/* ---- acts ---- */

		int add(Connection client) throws SQLException {
			List<Object> row = ledger.newRow(0);
			insert(client, row);
			ledger.keep(row);
			return 1;
		}

		int move(Connection client) throws SQLException {
			List<Object> row = ledger.newRow(0);
			client.setTransactionIsolation(rng.nextBoolean() ? Connection.TRANSACTION_READ_COMMITTED : Connection.TRANSACTION_SERIALIZABLE);
			client.setAutoCommit(false);
			countUp(client);
			insert(client, row);
			client.commit();
			ledger.counter++;
			ledger.keep(row);
			return 1;
		}

		int undo(Connection client) throws SQLException {
			client.setAutoCommit(false);
			countUp(client);
			insert(client, ledger.newRow(0));
			client.rollback();
			return 1;
		}

		int save(Connection client) throws SQLException, IOException, InterruptedException {
			List<Object> first = ledger.newRow(0), second = ledger.newRow(1);
			client.setAutoCommit(false);
			insert(client, first);
			Savepoint before = client.setSavepoint();
			insert(client, second);
			expect("23505", () -> insert(client, first));
			client.rollback(before);
			insert(client, second);
			client.releaseSavepoint(before);
			client.commit();
			ledger.keep(first);
			ledger.keep(second);
			return 1;
		}

		int fail(Connection client) throws SQLException, IOException, InterruptedException {
			expect("22012", () -> ask(client, "select 1 / ?", 0));
			expect("42P01", () -> ask(client, "select * from pools.no_such_table where x = ?", 1));
			expect("22P02", () -> ask(client, "select ?::text::int", "no number"));
			client.setAutoCommit(false);
			insert(client, ledger.newRow(0));
			expect("22012", () -> ask(client, "select 1 / ?", 0));
			if (autosave(client))
				isUsable(client); /* the driver went back to a savepoint of its own */
			else
				expect("25P02", () -> ask(client, "select 1 / ?", 1));
			client.rollback();
			client.setAutoCommit(true);
			isUsable(client);
			return 5;
		}

		boolean autosave(Connection client) throws SQLException {
			return client.unwrap(PGConnection.class).getAutosave() != AutoSave.NEVER;
		}

		/* A fetch size inside a transaction makes a portal that is read in portions. */
		int look(Connection client) throws SQLException {
			client.setAutoCommit(false);
			try (PreparedStatement statement = client.prepareStatement(OWN)) {
				statement.setFetchSize(new int[] {3, 10, 1000}[rng.nextInt(3)]);
				fill(statement, ledger.worker);
				try (ResultSet result = statement.executeQuery()) {
					ledger.check(rowsOf(result));
				}
			}
			same(ask(client, "select n, org from pools.counter where worker = ?", ledger.worker),
				List.of(List.of(ledger.counter, org)), "counter");
			client.commit();
			return 1;
		}

		Object below(Connection client) throws SQLException {
			return client.unwrap(PGConnection.class);
		}

		void seeWho(Connection client, Session session) throws SQLException {
			same(ask(client, WHO), List.of(session.row()), "settings");
		}

		Session session(Connection client) throws SQLException {
			return sessions.getOrDefault(below(client), start);
		}

		int who(Connection client) throws SQLException {
			seeWho(client, session(client));
			return 1;
		}

		int set(Connection client) throws SQLException {
			Session next = session(client).other(rng);
			say(client, next.commands(rng.nextBoolean() ? "" : "session"));
			sessions.put(below(client), next);
			seeWho(client, next);
			return 4;
		}

		int tryset(Connection client) throws SQLException {
			for (String local : new String[] {"", "local"}) {
				Session next = session(client).other(rng);
				client.setAutoCommit(false);
				say(client, next.commands(local));
				seeWho(client, next);
				if (local.isEmpty())
					client.rollback();
				else
					client.commit();
				client.setAutoCommit(true);
				seeWho(client, session(client));
			}
			return 4;
		}

		String line(List<Object> row) {
			StringBuilder line = new StringBuilder();
			for (Object value : row)
				line.append(line.length() == 0 ? "" : "\t").append(value);
			return line + "\n";
		}

		int copy(Connection client) throws SQLException, IOException, InterruptedException {
			CopyManager copies = client.unwrap(PGConnection.class).getCopyAPI();
			List<List<Object>> rows = ledger.newRows(1 + rng.nextInt(7));
			StringBuilder lines = new StringBuilder();
			rows.forEach(row -> lines.append(line(row)));
			same(copies.copyIn("copy pools.line from stdin", new StringReader(lines.toString())), (long)rows.size(), "copied rows");
			rows.forEach(ledger::keep);
			expect("23505", () -> copies.copyIn("copy pools.line from stdin", new StringReader(line(ledger.newRow(0)) + line(rows.get(0)))));
			CopyIn given = copies.copyIn("copy pools.line from stdin");
			byte[] bytes = line(ledger.newRow(0)).getBytes(StandardCharsets.UTF_8);
			given.writeToCopy(bytes, 0, bytes.length);
			given.cancelCopy();
			StringWriter out = new StringWriter();
			copies.copyOut("copy (" + OWN.replace("?", "'" + ledger.worker + "'") + ") to stdout", out);
			StringBuilder want = new StringBuilder();
			ledger.rows.values().forEach(row -> want.append(line(row)));
			same(out.toString(), want.toString(), "COPY out");
			return 4;
		}

		/* By another thread until the query has ended, since a cancel that came too early hits nothing; or by a time limit. */
		int cancel(Connection client) throws SQLException, IOException, InterruptedException {
			try (Statement statement = client.createStatement()) {
				if (rng.nextInt(4) == 0) {
					statement.setQueryTimeout(1);
					expect("57014", () -> statement.execute("select pg_sleep(30)"));
					statement.setQueryTimeout(0);
				} else {
					Thread canceller = new Thread(() -> {
						try {
							for (;;) {
								Thread.sleep(50);
								statement.cancel();
							}
						} catch (InterruptedException over) {
							return;
						} catch (SQLException failure) {
							faults.add(where() + ": cancel: " + failure);
						}
					});
					canceller.start();
					try {
						expect("57014", () -> statement.execute("select pg_sleep(30)"));
					} finally {
						canceller.interrupt();
						canceller.join();
					}
				}
			}
			isUsable(client);
			return 2;
		}

		int timeout(Connection client) throws SQLException, IOException, InterruptedException {
			client.setAutoCommit(false);
			insert(client, ledger.newRow(0));
			say(client, "set local statement_timeout = '20ms'");
			expect("57014", () -> say(client, "select pg_sleep(30)"));
			client.rollback();
			return 1;
		}

		int large(Connection client) throws SQLException {
			String value = ledger.text(1000).repeat(400);
			same(ask(client, "select ?::text", value), List.of(List.of(value)), "large value");
			return 1;
		}

		int adhoc(Connection client) throws SQLException {
			for (int i = 0; i < 8; i++) {
				int k = rng.nextInt(60), x = rng.nextInt(1000);
				same(ask(client, "select ? + " + k + ", ?::text", x, ledger.worker), List.of(List.of(x + k, ledger.worker)), "ad hoc query");
			}
			return 8;
		}

		int[] batchOf(Connection client, List<List<Object>> rows) throws SQLException {
			try (PreparedStatement statement = client.prepareStatement(ROW)) {
				for (List<Object> row : rows) {
					fill(statement, row.toArray());
					statement.addBatch();
				}
				return statement.executeBatch();
			}
		}

		int batch(Connection client) throws SQLException, IOException, InterruptedException {
			List<List<Object>> rows = ledger.newRows(20);
			client.setAutoCommit(false);
			same(batchOf(client, rows).length, 20, "rows of a batch");
			client.commit();
			rows.forEach(ledger::keep);
			List<List<Object>> bad = ledger.newRows(5);
			bad.add(rows.get(0));
			bad.add(ledger.newRow(5));
			expect("23505", () -> batchOf(client, bad));
			client.rollback();
			return 2;
		}

		int hold(Connection client) throws SQLException {
			Step[][] all = holds(ledger.worker);
			for (Step step : all[rng.nextInt(all.length)]) {
				if (step.answer == null)
					say(client, step.command);
				else
					same(ask(client, step.command), step.answer, step.command);
			}
			return 4;
		}

		int trim(Connection client) throws SQLException {
			List<Long> numbers = new ArrayList<>(ledger.rows.keySet());
			if (numbers.isEmpty())
				return 1;
			long last = numbers.get(Math.max(0, numbers.size() - 10));
			List<Object> gone = new ArrayList<>();
			for (List<Object> row : ask(client, "delete from pools.line where worker = ? and n <= ? returning n", ledger.worker, last))
				gone.add(row.get(0));
			gone.sort((a, b) -> Long.compare((Long)a, (Long)b));
			same(gone, new ArrayList<Object>(ledger.rows.headMap(last, true).keySet()), "numbers of deleted rows");
			ledger.rows.headMap(last, true).clear();
			return 1;
		}

		/* abort() drops the socket. */
		int leave(Connection any) throws SQLException {
			any.close(); /* that the pool has it while we use one of our own */
			Connection client = DriverManager.getConnection(pool.getJdbcUrl(), "app", password);
			client.setAutoCommit(false);
			insert(client, ledger.newRow(0));
			if (rng.nextBoolean())
				client.close();
			else
				client.abort(Runnable::run);
			return 1;
		}
	}

	static HikariDataSource poolOf(String org, int place) {
		HikariConfig config = new HikariConfig();
		config.setJdbcUrl("jdbc:postgresql://" + host + ":" + port + "/" + database + "?sslmode=disable&ApplicationName=app:org=" + org
			+ ":jdbc" + (place % 2 == 0 ? "&prepareThreshold=1&autosave=always&preparedStatementCacheQueries=8" : ""));
		config.setUsername("app");
		config.setPassword(password);
		config.setMaximumPoolSize(POOL);
		config.setConnectionTimeout(60000);
		config.setMaxLifetime(30000);
		return new HikariDataSource(config);
	}

	static String json(Map<String, AtomicLong> counts) {
		List<String> pairs = new ArrayList<>();
		counts.forEach((name, count) -> pairs.add("\"" + name + "\": " + count));
		return "{" + String.join(", ", pairs) + "}";
	}

	public static void main(String[] args) throws Exception {
		host = args[0];
		port = args[1];
		database = args[2];
		password = args[3];
		double seconds = Double.parseDouble(args[4]);
		seed = args[5];
		/* The driver sends the zone of the JVM as TimeZone. */
		java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("Asia/Kolkata"));
		List<Work> works = new ArrayList<>();
		for (int o = 1; o <= Integer.parseInt(args[6]); o++) {
			HikariDataSource pool = poolOf("o" + o, o);
			Session start = new Session("app:org=o" + o + ":jdbc", "Asia/Kolkata", "ISO, MDY", PATHS[0], "0", "");
			for (int place = 0; place < Integer.parseInt(args[7]); place++)
				works.add(new Work("o" + o, place, pool, start));
		}
		end = System.nanoTime() + (long)(seconds * 1e9);
		works.forEach(Thread::start);
		String slow = Objects.requireNonNullElse(System.getenv("PGWEIR_SLOW"), "1");
		long patience = end + (long)(Double.parseDouble(slow) * 20e9);
		for (Work work : works) {
			work.join(Math.max(1, (patience - System.nanoTime()) / 1000000));
			if (work.isAlive())
				faults.add("hangs: " + work.where() + "\n" + String.join("\n", Arrays.stream(work.getStackTrace()).map(Object::toString).toArray(String[]::new)));
		}
		if (!faults.isEmpty()) {
			faults.stream().limit(3).forEach(System.err::println);
			System.err.println(faults.size() + " faults");
			System.exit(1);
		}
		List<String> accounts = new ArrayList<>();
		works.forEach(work -> accounts.add(work.ledger.account()));
		System.out.println("{\"acts\": " + json(acts) + ", \"transactions\": " + transactions + ", \"errors\": " + json(errors)
			+ ", \"workers\": [" + String.join(", ", accounts) + "]}");
		System.out.flush();
		Runtime.getRuntime().halt(0);
	}
}
