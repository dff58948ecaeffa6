// postgres.js: every second org with prepare, the others without; queries of one connection are pipelined.

const { once } = require('node:events');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const postgres = require('postgres');
const { POOL, WHO, ZONES, Arguments, Session, Tally, Work, Wrong, dice, holds, runAll, same } = require('./mix');

// Without max_lifetime: where it strikes a reserved connection, postgres.js 3.4 waits for ever, with or without a pooler.
function howToConnect(given, org, place) {
	const rng = dice(`${given.seed}/${given.database}/${org}`);
	const start = new Session(given.applicationName(org), rng.pick(Object.keys(ZONES)), 'SQL, DMY');
	const how = {
		host: given.host, port: given.port, database: given.database, user: 'app', password: given.password, ssl: false,
		prepare: place % 2 === 0, max: POOL, onnotice: () => {},
		connection: { application_name: start.name, TimeZone: start.zone, DateStyle: start.style },
	};
	return { start, how };
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

class Undone extends Error {}

class PostgresWork extends Work {
	constructor(given, tally, org, place, start, how, sql) {
		super(given, tally, org, place);
		Object.assign(this, { start, how, sql });
	}

	insert(sql, row) {
		return sql`insert into pools.line values (${row[0]}, ${row[1]}, ${row[2]}, ${row[3]}, ${row[4]})`;
	}

	own(sql) {
		return sql`select worker, n::int, org, body, sum from pools.line where worker = ${this.ledger.worker} order by n`;
	}

	async begin() {
		await this.sql`insert into pools.counter values (${this.ledger.worker}, ${this.org}, 0)`;
	}

	async countUp(sql) {
		const [locked] = await sql`select n::int, org from pools.counter where worker = ${this.ledger.worker} for update`;
		same(locked, { n: this.ledger.counter, org: this.org }, 'counter');
		const [raised] = await sql`update pools.counter set n = n + 1 where worker = ${this.ledger.worker} returning n::int`;
		same(raised, { n: this.ledger.counter + 1 }, 'counter + 1');
	}

	async isUsable(sql) {
		same(await sql`select ${this.ledger.worker}::text`.values(), [[this.ledger.worker]], 'after an error');
	}

	// Run work(sql) in a transaction that is rolled back.
	async undone(work) {
		await this.sql.begin(async (sql) => {
			await work(sql);
			throw new Undone();
		}).catch((failure) => {
			if (!(failure instanceof Undone)) throw failure;
		});
	}

	// Run work(sql) with a connection that nobody else uses meanwhile.
	async lent(work) {
		const sql = await this.sql.reserve();
		try {
			return await work(sql);
		} finally {
			sql.release();
		}
	}

	async act_add() {
		const row = this.ledger.newRow();
		await this.insert(this.sql, row);
		this.ledger.keep(row);
	}

	async act_move() {
		const row = this.ledger.newRow();
		await this.sql.begin(async (sql) => {
			await this.countUp(sql);
			await this.insert(sql, row);
		});
		this.ledger.counter++;
		this.ledger.keep(row);
	}

	act_undo() {
		return this.undone(async (sql) => {
			await this.countUp(sql);
			await this.insert(sql, this.ledger.newRow());
		});
	}

	async act_save() {
		const [first, second] = this.ledger.newRows(2);
		await this.sql.begin(async (sql) => {
			await this.insert(sql, first);
			await this.expect('23505', sql.savepoint(async (inner) => {
				await this.insert(inner, second);
				await this.insert(inner, first);
			}));
			await sql.savepoint((inner) => this.insert(inner, second));
		});
		this.ledger.keep(first, second);
	}

	async act_fail() {
		await this.expect('22012', this.sql`select 1 / ${0}::int`);
		await this.expect('42P01', this.sql`select * from pools.no_such_table where x = ${1}`);
		await this.expect('22P02', this.sql`select ${'no number'}::text::int`);
		await this.undone(async (sql) => {
			await this.insert(sql, this.ledger.newRow());
			await this.expect('22012', sql`select 1 / ${0}::int`);
			await this.expect('25P02', sql`select ${1}::int`);
		});
		await this.isUsable(this.sql);
		return 5;
	}

	async act_look() {
		await this.sql.begin(async (sql) => {
			const rows = [];
			for await (const some of this.own(sql).cursor(this.rng.pick([3, 10, 1000])))
				rows.push(...some.map((row) => Object.values(row)));
			this.ledger.check(rows);
			const [counter] = await sql`select n::int, org from pools.counter where worker = ${this.ledger.worker}`;
			same(counter, { n: this.ledger.counter, org: this.org }, 'counter');
		});
	}

	async seeWho(sql, session = this.start) {
		const [row] = await sql.unsafe(WHO, [], { prepare: this.rng.chance(0.5) });
		same(Object.values(row), session.row(), 'settings');
	}

	act_who() {
		return this.seeWho(this.sql);
	}

	// Set back before the connection goes to another worker: postgres.js does not say which one it is.
	async act_set() {
		await this.lent(async (sql) => {
			const next = this.start.other(this.rng);
			for (const command of next.commands(this.rng.pick(['', 'session']))) await sql.unsafe(command);
			await this.seeWho(sql, next);
			const row = this.ledger.newRow();
			await this.insert(sql, row);
			this.ledger.keep(row);
			await this.seeWho(sql, next);
			for (const command of this.start.commands()) await sql.unsafe(command);
			await this.seeWho(sql);
		});
		return 10;
	}

	async act_tryset() {
		await this.lent(async (sql) => {
			for (const local of ['', 'local']) {
				const next = this.start.other(this.rng);
				await sql`begin`;
				for (const command of next.commands(local)) await sql.unsafe(command);
				await this.seeWho(sql, next);
				await (local ? sql`commit` : sql`rollback`);
				await this.seeWho(sql);
			}
		});
		return 4;
	}

	async act_copy() {
		const rows = this.ledger.newRows(1 + this.rng.below(7));
		const lines = (some) => Readable.from(some.map((row) => `${row.join('\t')}\n`));
		await this.lent(async (sql) => {
			await pipeline(lines(rows), await sql`copy pools.line from stdin`.writable());
			this.ledger.keep(...rows);
			// An error of the server's would never be told to the stream; our own CopyFail works.
			const given = await sql`copy pools.line from stdin`.writable();
			given.on('error', () => {});
			given.write(`${this.ledger.newRow().join('\t')}\n`);
			given.destroy(new Error('changed our mind'));
			await this.isUsable(sql);
			const out = await sql.unsafe(`copy (select n, sum from pools.line where worker = '${this.ledger.worker}'
				order by n) to stdout`).readable();
			let got = '';
			out.on('data', (some) => { got += some; });
			await once(out, 'end');
			same(got, this.ledger.numbers().map((n) => `${n}\t${this.ledger.rows.get(n)[4]}\n`).join(''), 'COPY out');
			await this.isUsable(sql);
		});
		return 3;
	}

	// Until the query has ended: a cancel that came too early hit nothing, and Query.cancel() works but once.
	async act_cancel() {
		await this.lent(async (sql) => {
			let over = false;
			const query = sql`select pg_sleep(${30})`;
			const cancel = query.canceller;
			const sleeping = this.expect('57014', query).finally(() => { over = true; });
			while (!over) {
				await pause(50);
				if (!over && query.active && query.state) await cancel(query);
			}
			await sleeping;
			await this.isUsable(sql);
		});
		return 2;
	}

	async act_timeout() {
		await this.expect('57014', this.sql.begin(async (sql) => {
			await this.insert(sql, this.ledger.newRow());
			await sql`set local statement_timeout = '20ms'`;
			await sql`select pg_sleep(30)`;
		}));
	}

	async act_large() {
		const value = this.ledger.text(1000).repeat(400);
		const [{ got }] = await this.sql`select ${value}::text as got`;
		if (got !== value) throw new Wrong('large value');
	}

	// Many at once: they are spread over the connections, and pipelined on each.
	async act_adhoc() {
		await Promise.all([...Array(8)].map(async () => {
			const k = this.rng.below(60);
			const x = this.rng.below(1000);
			const got = await this.sql.unsafe(`select $1::int + ${k} as a, $2::text as b`, [x, this.ledger.worker],
				{ prepare: this.how.prepare });
			same(got[0], { a: x + k, b: this.ledger.worker }, 'ad hoc query');
		}));
		return 8;
	}

	async act_batch() {
		const rows = this.ledger.newRows(20);
		await this.sql.begin((sql) => rows.map((row) => this.insert(sql, row)));
		this.ledger.keep(...rows);
		const more = this.ledger.newRows(10).map(([worker, n, org, body, sum]) => ({ worker, n, org, body, sum }));
		await this.expect('23505', this.sql`insert into pools.line ${this.sql([...more, more[0]])}`);
		await this.sql`insert into pools.line ${this.sql(more)}`;
		this.ledger.keep(...more.map(Object.values));
		// One of the transaction's queries fails behind others that are on their way: nothing of it stays.
		await this.expect('23505', this.sql.begin((sql) => [this.ledger.newRow(), rows[0], this.ledger.newRow(1)]
			.map((row) => this.insert(sql, row))));
		return 4;
	}

	async act_hold() {
		await this.lent(async (sql) => {
			for (const [command, answer] of this.rng.pick(holds(this.ledger.worker))) {
				const rows = await sql.unsafe(command).values();
				if (answer) same(rows, answer, command);
			}
		});
		return 4;
	}

	async act_trim() {
		const [last, numbers] = this.ledger.oldest();
		const gone = await this.sql`delete from pools.line where worker = ${this.ledger.worker} and n <= ${last} returning n::int`;
		same(gone.map(({ n }) => n).sort((a, b) => a - b), numbers, 'numbers of deleted rows');
		this.ledger.drop(numbers);
	}

	async act_leave() {
		const alone = postgres({ ...this.how, max: 1 });
		const sql = await alone.reserve();
		await sql`begin`;
		await this.insert(sql, this.ledger.newRow());
		await alone.end({ timeout: 0 });
	}
}

async function main() {
	const given = new Arguments('postgres');
	const tally = new Tally();
	const works = given.orgs.flatMap((org, number) => {
		const { start, how } = howToConnect(given, org, number);
		const sql = postgres(how);
		return [...Array(given.workers).keys()].map((place) => new PostgresWork(given, tally, org, place, start, how, sql));
	});
	await runAll(given, works, tally);
}

main();
