// What a Node application does, through node-postgres. Prints one line for each step.

const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool } = require('pg');
const copy = require('pg-copy-streams');

const url = process.argv[2];

async function text(stream) {
	let all = '';
	for await (const chunk of stream) all += chunk;
	return all;
}

async function transaction(client) {
	await client.query('begin');
	await client.query('insert into t values ($1)', [1]);
	await client.query('rollback');
	await client.query('begin');
	await client.query('insert into t values ($1)', [2]);
	await client.query('commit');
	const { rows } = await client.query('select count(*)::int as n from t');
	console.log('transaction', rows[0].n);
}

async function prepared(client) {
	let sum = 0;
	for (let n = 0; n < 20; n++) {
		const { rows } = await client.query({ name: 'ten', text: 'select $1::int * 10 as x', values: [n] });
		sum += rows[0].x;
	}
	console.log('prepared', sum);
}

async function many() {
	const pool = new Pool({ connectionString: url, max: 8 });
	const answers = await Promise.all([...Array(100).keys()].map(
		(n) => pool.query({ name: `s${n % 7}`, text: `select $1::int + ${n % 7} as x`, values: [n] })));
	console.log('pool', answers.every(({ rows }, n) => rows[0].x === n + n % 7));
	await pool.end();
}

async function error(client) {
	await client.query('select 1/0').catch((failure) => console.log('error', failure.code));
}

async function cancel(client) {
	const sleeping = client.query('select pg_sleep(30)').catch((failure) => console.log('cancel', failure.code));
	const other = new Client({ connectionString: url });
	await other.connect();
	for (;;) {
		const { rows } = await other.query(
			"select 1 from pg_stat_activity where state = 'active' and query = 'select pg_sleep(30)'");
		if (rows.length) break;
	}
	await other.end();
	// node-postgres sends a CancelRequest for the active query of a client by a second client.
	const query = { processID: client.processID, secretKey: client.secretKey };
	const messenger = new Client({ connectionString: url });
	messenger.connection.on('connect', () => messenger.connection.cancel(query.processID, query.secretKey));
	messenger.connection.on('error', () => {});
	messenger.connection.connect(messenger.port, messenger.host);
	await sleeping;
}

async function copies(client) {
	await pipeline(Readable.from(['1\tone\n', '2\ttwo\n']), client.query(copy.from('copy ct from stdin')));
	const out = await text(client.query(copy.to('copy ct to stdout')));
	console.log('copy', out.length);
}

async function main() {
	const client = new Client({ connectionString: url });
	await client.connect();
	const { rows } = await client.query('select 6 * 7 as x');
	console.log('query', rows[0].x);
	await transaction(client);
	await prepared(client);
	await many();
	await error(client);
	await cancel(client);
	await copies(client);
	console.log('end', (await client.query('select 1 as x')).rows[0].x);
	await client.end();
}

main().catch((failure) => { console.error(failure); process.exit(1); });
