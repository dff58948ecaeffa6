// What the Node programs of this folder have in common: arguments, the checker, the tally, the workers. See README.md, and
// mix.py, which this follows.

const crypto = require('node:crypto');

const POOL = 3;
const ALPHABET = [..."abcdefghijklmnopqrstuvwxyz'\"$;:,.é "];
const ZONES = {
	'UTC': ['12:00:00', '+00', 'UTC'],
	'America/New_York': ['08:00:00', '-04', 'EDT'],
	'Asia/Kolkata': ['17:30:00', '+05:30', 'IST'],
};
const STYLES = ['ISO, MDY', 'German, DMY', 'SQL, DMY'];
const PATHS = ['"$user", public', 'pools, public', 'public, pools'];
const LIMITS = ['0', '5min', '400s'];
const WHO = `select current_setting('application_name') as name, current_setting('TimeZone') as zone,
	current_setting('DateStyle') as style, '2020-07-01 12:00:00+00'::timestamptz::text as instant,
	current_setting('search_path') as path, current_setting('statement_timeout') as limit,
	coalesce(current_setting('app.who', true), '') as who`;

const md5 = (text) => crypto.createHash('md5').update(text).digest('hex');

class Wrong extends Error {}

function same(got, want, what) {
	const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
	if (a !== b) throw new Wrong(`${what}: got ${a.slice(0, 500)}, want ${b.slice(0, 500)}`);
}

// A generator of one worker (mulberry32), so that a seed plays the same acts again.
function dice(text) {
	let state = parseInt(md5(text).slice(0, 8), 16);
	const next = () => {
		state = (state + 0x6d2b79f5) | 0;
		let t = Math.imul(state ^ (state >>> 15), 1 | state);
		t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
	};
	const below = (n) => Math.floor(next() * n);
	return { below, chance: (p) => next() < p, pick: (list) => list[below(list.length)] };
}

class Arguments {
	constructor(driver) {
		const [host, port, database, password, seconds, seed, orgs, workers] = process.argv.slice(2);
		Object.assign(this, { driver, host, port: Number(port), database, password, seed });
		this.seconds = Number(seconds);
		this.orgs = [...Array(Number(orgs)).keys()].map((n) => `o${n + 1}`);
		this.workers = Number(workers);
	}

	applicationName(org) {
		return `app:org=${org}:${this.driver}`;
	}
}

// The settings of one connection, as its user knows them.
class Session {
	constructor(name, zone = 'UTC', style = 'ISO, MDY', path = PATHS[0], limit = '0', who = '') {
		Object.assign(this, { name, zone, style, path, limit, who });
	}

	// Settings to change to; the part of the name that tells the org stays.
	other(rng) {
		const [app, org] = this.name.split(':');
		return new Session(`${app}:${org}:${rng.below(1000)}'x`, rng.pick(Object.keys(ZONES)), rng.pick(STYLES),
			rng.pick(PATHS), rng.pick(LIMITS), `${rng.below(1000)}`);
	}

	commands(local = '') {
		return [`set ${local} application_name = '${this.name.replaceAll("'", "''")}'`,
			`set ${local} TimeZone to '${this.zone}'`, `set ${local} datestyle = ${this.style}`,
			`set ${local} search_path to ${this.path}`, `set ${local} statement_timeout to '${this.limit}'`,
			`set ${local} app.who to '${this.who}'`];
	}

	// What WHO answers.
	row() {
		const [hour, offset, zone] = ZONES[this.zone];
		const instant = {
			'ISO, MDY': `2020-07-01 ${hour}${offset}`, 'German, DMY': `01.07.2020 ${hour} ${zone}`,
			'SQL, DMY': `01/07/2020 ${hour} ${zone}`,
		}[this.style];
		return [this.name, this.zone, this.style, instant, this.path, this.limit, this.who];
	}
}

// What stays with the session from one transaction to the next: statements, and what they answer if they do, four times.
function holds(worker) {
	const k = parseInt(md5(worker).slice(0, 7), 16);
	const locks = `select count(*)::text from pg_locks where locktype = 'advisory' and objid = ${k}`;
	return [
		[[`create temp table mine as select '${worker}'::text as w, n from generate_series(1, 5) n`],
			[`insert into mine values ('${worker}', 6)`],
			['select count(*)::text, min(w) as a, max(w) as b from mine', [['6', worker, worker]]],
			['drop table mine']],
		[[`select pg_advisory_lock(${k})::text`, [['']]], [locks, [['1']]],
			[`select pg_advisory_unlock(${k})::text`, [['true']]], [locks, [['0']]]],
		[[`prepare mine (int) as select ($1 + ${k})::text`], ['execute mine (1)', [[`${k + 1}`]]],
			['execute mine (2)', [[`${k + 2}`]]], ['deallocate mine']],
		[['declare mine cursor with hold for select n::text from generate_series(1, 5) n'],
			['fetch 2 from mine', [['1'], ['2']]], ['fetch 2 from mine', [['3'], ['4']]], ['close mine']],
	];
}

// All that one worker has committed. A row is [worker, n, org, body, sum].
class Ledger {
	constructor(worker, org, rng) {
		Object.assign(this, { worker, org, rng, counter: 0, next: 1, rows: new Map() });
	}

	text(length) {
		return [...Array(length)].map(() => this.rng.pick(ALPHABET)).join('');
	}

	newRow(ahead = 0) {
		const n = this.next + ahead;
		let body = this.text(this.rng.below(60));
		if (this.rng.chance(0.02)) body = `${body.repeat(300)}.`;
		return [this.worker, n, this.org, body, md5(`${this.worker}|${n}|${body}`)];
	}

	newRows(count) {
		return [...Array(count).keys()].map((ahead) => this.newRow(ahead));
	}

	keep(...rows) {
		for (const row of rows) {
			this.rows.set(row[1], row);
			this.next = Math.max(this.next, row[1] + 1);
		}
	}

	numbers() {
		return [...this.rows.keys()].sort((a, b) => a - b);
	}

	// The number up to which rows are to be deleted, and those numbers.
	oldest() {
		const numbers = this.numbers();
		if (!numbers.length) return [0, []];
		const last = numbers[Math.max(0, numbers.length - 10)];
		return [last, numbers.filter((n) => n <= last)];
	}

	drop(numbers) {
		for (const n of numbers) this.rows.delete(n);
	}

	// Compare rows as read, in the order of n.
	check(rows) {
		same(rows.map((row) => row[1]), this.numbers(), 'numbers of the rows');
		for (const row of rows) same(row, this.rows.get(row[1]), 'row');
	}

	account() {
		const digest = this.numbers().map((n) => `${n}:${this.rows.get(n)[4]};`).join('');
		return { worker: this.worker, org: this.org, counter: this.counter, rows: this.rows.size, digest: md5(digest) };
	}
}

class Tally {
	constructor() {
		Object.assign(this, { acts: {}, errors: {}, transactions: 0, faults: [] });
	}

	count(act, transactions) {
		this.acts[act] = (this.acts[act] || 0) + 1;
		this.transactions += transactions;
	}

	error(code) {
		this.errors[code] = (this.errors[code] || 0) + 1;
	}
}

// One worker. A driver's program subclasses it, with the acts as methods act_<name>.
class Work {
	constructor(given, tally, org, place) {
		const name = `${given.database}-${org}-${place}`;
		Object.assign(this, { given, tally, org, done: 0, act: 'begin', rng: dice(`${given.seed}/${name}`) });
		this.ledger = new Ledger(name, org, this.rng);
	}

	// The promise must fail with this SQLSTATE.
	async expect(code, promise) {
		let failure;
		try {
			await promise;
		} catch (caught) {
			failure = caught;
		}
		if (!failure) throw new Wrong(`no error where ${code} was due`);
		if (failure.code !== code) throw failure;
		this.tally.error(code);
	}

	static acts(work) {
		return Object.getOwnPropertyNames(Object.getPrototypeOf(work)).filter((name) => name.startsWith('act_'))
			.map((name) => name.slice(4));
	}

	// Names of acts: each of them once, then any until the time is over, and a last look.
	* plan(end) {
		const acts = Work.acts(this);
		const rare = ['cancel', 'timeout', 'leave', 'large'];
		const likely = acts.flatMap((name) => Array(rare.includes(name) ? 1 : 6).fill(name));
		const once = [...acts];
		while (once.length) yield once.splice(this.rng.below(once.length), 1)[0];
		while (Date.now() < end && !this.tally.faults.length) yield this.rng.pick(likely);
		yield 'look';
	}

	async run(end) {
		try {
			await this.begin();
			for (this.act of this.plan(end)) {
				if (this.tally.faults.length) return;
				this.done++;
				this.tally.count(this.act, await this[`act_${this.act}`]() || 1);
			}
			this.act = null;
		} catch (failure) {
			this.tally.faults.push(`${this.where()}\n${failure.code || ''} ${failure.stack || failure}`);
		}
	}

	where() {
		return `${this.ledger.worker}, act ${this.act} (number ${this.done}), seed ${this.given.seed}`;
	}
}

// Run all workers and end the program.
async function runAll(given, works, tally) {
	const end = Date.now() + given.seconds * 1000;
	const patience = given.seconds + 20 * Number(process.env.PGWEIR_SLOW || 1);
	const late = setTimeout(() => {
		tally.faults.push(...works.filter((work) => work.act).map((work) => `hangs: ${work.where()}`));
		finish(works, tally);
	}, patience * 1000);
	await Promise.all(works.map((work) => work.run(end)));
	clearTimeout(late);
	finish(works, tally);
}

function finish(works, tally) {
	if (tally.faults.length) {
		console.error(`${tally.faults.slice(0, 3).join('\n\n')}\n${tally.faults.length} faults`);
		process.exit(1);
	}
	const { acts, errors, transactions } = tally;
	process.stdout.write(`${JSON.stringify({ acts, transactions, errors, workers: works.map((work) => work.ledger.account()) })}\n`,
		() => process.exit(0));
}

module.exports = { POOL, WHO, ZONES, Arguments, Ledger, Session, Tally, Work, Wrong, dice, holds, runAll, same };
