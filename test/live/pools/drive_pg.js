// node-postgres with its own pool: named statements, pg-cursor, pg-copy-streams.

const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const copy = require('pg-copy-streams');
const { POOL, WHO, ZONES, Arguments, Session, Tally, Work, Wrong, dice, holds, runAll, same } = require('./mix');

const ROW = { name: 'row', text: 'insert into pools.line values ($1, $2, $3, $4, $5)' };
const LOCK = { name: 'lock', text: 'select n::int, org from pools.counter where worker = $1 for update' };
const COUNT_UP = { name: 'count up', text: 'update pools.counter set n = n + 1 where worker = $1 returning n::int' };
const OWN = 'select worker, n::int, org, body, sum from pools.line where worker = $1 order by n';
const COPY_OWN = (worker) => `copy (${OWN.replace('$1', `'${worker}'`)}) to stdout`;

function howToConnect(given, org) {
	const rng = dice(`${given.seed}/${given.database}/${org}`);
	const start = new Session(given.applicationName(org), rng.pick(Object.keys(ZONES)));
	const how = {
		host: given.host, port: given.port, database: given.database, user: 'app', password: given.password,
		application_name: start.name, options: `-c TimeZone=${start.zone}`,
	};
	return { start, how };
}

async function text(stream) {
	let all = '';
	for await (const chunk of stream) all += chunk;
	return all;
}

class PgWork extends Work {
	constructor(given, tally, org, place, start, how, pool) {
		super(given, tally, org, place);
		Object.assign(this, { start, how, pool });
	}

	// Run work(client) with a connection of the pool.
	async lent(work) {
		const client = await this.pool.connect();
		client.session ||= Object.assign(new Session(), this.start);
		try {
			return await work(client);
		} finally {
			client.release();
		}
	}

	// Run work(client) in a transaction; what it throws rolls back.
	async transaction(client, work, end = 'commit') {
		await client.query('begin');
		try {
			const result = await work();
			await client.query(end);
			return result;
		} catch (failure) {
			await client.query('rollback');
			throw failure;
		}
	}

	async ask(client, query, ...values) {
		return (await client.query({ ...(query.text ? query : { text: query }), values, rowMode: 'array' })).rows;
	}

	begin() {
		return this.lent((client) => this.ask(client, 'insert into pools.counter values ($1, $2, 0)', this.ledger.worker, this.org));
	}

	async countUp(client) {
		same(await this.ask(client, LOCK, this.ledger.worker), [[this.ledger.counter, this.org]], 'counter');
		same(await this.ask(client, COUNT_UP, this.ledger.worker), [[this.ledger.counter + 1]], 'counter + 1');
	}

	async isUsable(client) {
		same(await this.ask(client, 'select $1::text', this.ledger.worker), [[this.ledger.worker]], 'after an error');
	}

	async act_add() {
		const row = this.ledger.newRow();
		await this.pool.query({ ...ROW, values: row });
		this.ledger.keep(row);
	}

	async act_move() {
		const row = this.ledger.newRow();
		await this.lent((client) => this.transaction(client, async () => {
			await this.countUp(client);
			await this.ask(client, ROW, ...row);
		}));
		this.ledger.counter++;
		this.ledger.keep(row);
	}

	act_undo() {
		return this.lent((client) => this.transaction(client, async () => {
			await this.countUp(client);
			await this.ask(client, ROW, ...this.ledger.newRow());
		}, 'rollback'));
	}

	async act_save() {
		const [first, second] = this.ledger.newRows(2);
		await this.lent((client) => this.transaction(client, async () => {
			await this.ask(client, ROW, ...first);
			await client.query('savepoint a');
			await this.ask(client, ROW, ...second);
			await this.expect('23505', this.ask(client, ROW, ...first));
			await client.query('rollback to a');
			await this.ask(client, ROW, ...second);
			await client.query('release a');
		}));
		this.ledger.keep(first, second);
	}

	async act_fail() {
		await this.lent(async (client) => {
			await this.expect('22012', this.ask(client, { name: 'by', text: 'select 1 / $1::int' }, 0));
			await this.expect('42P01', this.ask(client, 'select * from pools.no_such_table where x = $1', 1));
			await this.expect('22P02', this.ask(client, 'select $1::int', 'no number'));
			await client.query('begin');
			await this.ask(client, ROW, ...this.ledger.newRow());
			await this.expect('22012', client.query('select 1/0'));
			await this.expect('25P02', this.ask(client, { name: 'by', text: 'select 1 / $1::int' }, 1));
			await client.query('rollback');
			await this.isUsable(client);
		});
		return 5;
	}

	// By pg-cursor: Execute of some rows, Flush, and so on.
	async act_look() {
		await this.lent((client) => this.transaction(client, async () => {
			const cursor = client.query(new Cursor(OWN, [this.ledger.worker], { rowMode: 'array' }));
			const portion = this.rng.pick([3, 10, 1000]);
			const rows = [];
			for (;;) {
				const some = await cursor.read(portion);
				rows.push(...some);
				if (some.length < portion) break;
			}
			await cursor.close();
			this.ledger.check(rows);
			same(await this.ask(client, LOCK, this.ledger.worker), [[this.ledger.counter, this.org]], 'counter');
		}));
	}

	async seeWho(client, session = client.session) {
		same(await this.ask(client, WHO), [session.row()], 'settings');
	}

	act_who() {
		return this.lent((client) => this.seeWho(client));
	}

	async act_set() {
		await this.lent(async (client) => {
			const next = client.session.other(this.rng);
			for (const command of next.commands(this.rng.pick(['', 'session']))) await client.query(command);
			client.session = next;
			await this.seeWho(client);
		});
		return 4;
	}

	async act_tryset() {
		await this.lent(async (client) => {
			for (const local of ['', 'local']) {
				const next = client.session.other(this.rng);
				await this.transaction(client, async () => {
					for (const command of next.commands(local)) await client.query(command);
					await this.seeWho(client, next);
				}, local ? 'commit' : 'rollback');
				await this.seeWho(client);
			}
		});
		return 4;
	}

	async act_copy() {
		const rows = this.ledger.newRows(1 + this.rng.below(7));
		const line = (row) => `${row.join('\t')}\n`;
		const copyIn = (client, some) =>
			pipeline(Readable.from(some.map(line)), client.query(copy.from('copy pools.line from stdin')));
		await this.lent(async (client) => {
			await copyIn(client, rows);
			this.ledger.keep(...rows);
			await this.expect('23505', copyIn(client, [this.ledger.newRow(), rows[0]]));
			const out = await text(client.query(copy.to(COPY_OWN(this.ledger.worker))));
			this.ledger.check(out.split('\n').slice(0, -1).map((one) => one.split('\t'))
				.map(([worker, n, ...rest]) => [worker, Number(n), ...rest]));
		});
		return 3;
	}

	// As node-postgres has it: a second connection that sends the key of the first. Until the query has ended, since
	// one that came too early hit nothing.
	async act_cancel() {
		await this.lent(async (client) => {
			let over = false;
			const sleeping = this.expect('57014', client.query('select pg_sleep(30)')).finally(() => { over = true; });
			while (!over) {
				await new Promise((resolve) => { setTimeout(resolve, 50); });
				if (!over) await this.sendCancel(client);
			}
			await sleeping;
			await this.isUsable(client);
		});
		return 2;
	}

	sendCancel(client) {
		return new Promise((resolve) => {
			const { connection } = new Client(this.how);
			connection.on('connect', () => connection.cancel(client.processID, client.secretKey));
			connection.on('error', () => {});
			connection.on('end', resolve);
			connection.connect(this.how.port, this.how.host);
		});
	}

	async act_timeout() {
		await this.lent((client) => this.expect('57014', this.transaction(client, async () => {
			await this.ask(client, ROW, ...this.ledger.newRow());
			await client.query("set local statement_timeout = '20ms'");
			await client.query('select pg_sleep(30)');
		})));
	}

	async act_large() {
		const value = this.ledger.text(1000).repeat(400);
		const [[got]] = await this.lent((client) => this.ask(client, 'select $1::text', value));
		if (got !== value) throw new Wrong('large value');
	}

	async act_adhoc() {
		await this.lent(async (client) => {
			for (let i = 0; i < 8; i++) {
				const k = this.rng.below(60);
				const x = this.rng.below(1000);
				const query = { name: this.rng.chance(0.5) ? `k${k}` : '', text: `select $1::int + ${k}, $2::text` };
				same(await this.ask(client, query, x, this.ledger.worker), [[x + k, this.ledger.worker]], 'ad hoc query');
			}
		});
		return 8;
	}

	// Queries queue in the client; one text of many statements is one transaction.
	async act_batch() {
		const rows = this.ledger.newRows(20);
		const quoted = (row) => `('${row.map((value) => String(value).replaceAll("'", "''")).join("', '")}')`;
		await this.lent(async (client) => {
			await Promise.all(rows.map((row) => this.ask(client, ROW, ...row)));
			this.ledger.keep(...rows);
			const more = this.ledger.newRows(5);
			const inserts = more.map((row) => `insert into pools.line values ${quoted(row)}`);
			await this.expect('23505', client.query([...inserts, inserts[0], 'select 1'].join('; ')));
			await client.query(inserts.join('; '));
			this.ledger.keep(...more);
		});
		return 22;
	}

	async act_hold() {
		await this.lent(async (client) => {
			for (const [command, answer] of this.rng.pick(holds(this.ledger.worker))) {
				const rows = await this.ask(client, command);
				if (answer) same(rows, answer, command);
			}
		});
		return 4;
	}

	async act_trim() {
		const [last, numbers] = this.ledger.oldest();
		const gone = await this.lent((client) => this.ask(client,
			{ name: 'trim', text: 'delete from pools.line where worker = $1 and n <= $2 returning n::int' }, this.ledger.worker, last));
		same(gone.map(([n]) => n).sort((a, b) => a - b), numbers, 'numbers of deleted rows');
		this.ledger.drop(numbers);
	}

	// Also out of a cursor that is half read.
	async act_leave() {
		const client = new Client(this.how);
		client.on('error', () => {});
		await client.connect();
		await client.query('begin');
		await this.ask(client, ROW, ...this.ledger.newRow());
		const cursor = client.query(new Cursor('select generate_series(1, 10000)'));
		await cursor.read(10);
		client.connection.stream.destroy();
	}
}

async function main() {
	const given = new Arguments('pg');
	const tally = new Tally();
	const works = given.orgs.flatMap((org) => {
		const { start, how } = howToConnect(given, org);
		const pool = new Pool({ ...how, max: POOL, maxUses: 300 });
		pool.on('error', (failure) => tally.faults.push(`an idle connection of ${org}: ${failure.stack}`));
		return [...Array(given.workers).keys()].map((place) => new PgWork(given, tally, org, place, start, how, pool));
	});
	await runAll(given, works, tally);
}

main();
