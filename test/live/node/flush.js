// postgres.js without named statements: it describes with a Flush and executes with a Sync, many at a time.

const postgres = require('postgres');

async function main() {
	const sql = postgres(process.argv[2], { prepare: false, max: 10, ssl: false, onnotice: () => {} });
	const numbers = [...Array(Number(process.argv[3])).keys()];
	const answers = await Promise.all(numbers.map((n) => sql`select ${n}::int * 2 as x, ${'v' + n}::text as v`));
	console.log(answers.filter(([row], n) => row.x === n * 2 && row.v === `v${n}`).length);
	await sql.end();
}

main().catch((failure) => { console.error(failure); process.exit(1); });
