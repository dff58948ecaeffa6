// Two clients of node-postgres whose unnamed statements take turns on one server. Prints the number of right answers.

const { Client } = require('pg');

async function main() {
	const clients = [0, 1].map(() => new Client({ connectionString: process.argv[2] }));
	await Promise.all(clients.map((client) => client.connect()));
	let right = 0;
	for (let n = 0; n < Number(process.argv[3]); n++) {
		const answers = await Promise.all(clients.map((client, place) =>
			client.query(`select $1::int * 10 + ${place} as x`, [n])));
		right += answers.filter(({ rows }, place) => rows[0].x === n * 10 + place).length;
	}
	console.log(right);
	await Promise.all(clients.map((client) => client.end()));
}

main().catch((failure) => { console.error(failure); process.exit(1); });
