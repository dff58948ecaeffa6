# Ruby's pg with a pool of its own (a Queue): named statements, single-row mode, pipeline mode, COPY.

require "digest"
require "json"
require "pg"
require "socket"

POOL = 3
ALPHABET = "abcdefghijklmnopqrstuvwxyz'\"$;:,.é ".chars
ZONES = {
	"UTC" => ["12:00:00", "+00", "UTC"], "America/New_York" => ["08:00:00", "-04", "EDT"],
	"Asia/Kolkata" => ["17:30:00", "+05:30", "IST"]
}
STYLES = ["ISO, MDY", "German, DMY", "SQL, DMY"]
PATHS = ['"$user", public', "pools, public", "public, pools"]
LIMITS = %w[0 5min 400s]
WHO = "select current_setting('application_name'), current_setting('TimeZone'), current_setting('DateStyle'), " \
	"'2020-07-01 12:00:00+00'::timestamptz::text, current_setting('search_path'), current_setting('statement_timeout'), " \
	"coalesce(current_setting('app.who', true), '')"
STATEMENTS = {
	"row" => "insert into pools.line values ($1, $2, $3, $4, $5)",
	"lock" => "select n, org from pools.counter where worker = $1 for update",
	"count up" => "update pools.counter set n = n + 1 where worker = $1 returning n",
	"by" => "select 1 / $1::int",
	"echo" => "select $1::text",
	"trim" => "delete from pools.line where worker = $1 and n <= $2 returning n"
}
OWN = "select worker, n, org, body, sum from pools.line where worker = $1 order by n"

HOST, PORT, DATABASE, PASSWORD, SECONDS, SEED, ORGS, WORKERS = ARGV
FAR = SECONDS.to_f + 20 * ENV.fetch("PGWEIR_SLOW", "1").to_f

class Wrong < StandardError; end

def same(got, want, what)
	raise Wrong, "#{what}: got #{got.inspect[0, 500]}, want #{want.inspect[0, 500]}" unless got == want
end

def now
	Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Counts of all workers, and the one signal to stop.
class Tally
	attr_reader :acts, :errors, :faults
	attr_accessor :transactions

	def initialize
		@acts, @errors, @faults, @transactions = Hash.new(0), Hash.new(0), [], 0
		@lock = Mutex.new
	end

	def count(act, transactions)
		@lock.synchronize do
			@acts[act] += 1
			@transactions += transactions
		end
	end

	def error(code)
		@lock.synchronize { @errors[code] += 1 }
	end

	def fault(text)
		@lock.synchronize { @faults << text }
	end
end

# The settings of one connection, as its user knows them.
Session = Struct.new(:name, :zone, :style, :path, :limit, :who) do
	# Settings to change to; the part of the name that tells the org stays.
	def other(rng)
		app, org, = name.split(":")
		Session.new("#{app}:#{org}:#{rng.rand(1000)}'x", ZONES.keys.sample(random: rng), STYLES.sample(random: rng),
			    PATHS.sample(random: rng), LIMITS.sample(random: rng), rng.rand(1000).to_s)
	end

	def commands(local = "")
		["set #{local} application_name = '#{name.gsub("'", "''")}'", "set #{local} TimeZone to '#{zone}'",
		 "set #{local} datestyle = #{style}", "set #{local} search_path to #{path}",
		 "set #{local} statement_timeout to '#{limit}'", "set #{local} app.who to '#{who}'"]
	end

	# What WHO answers.
	def row
		hour, offset, short = ZONES[zone]
		instant = { "ISO, MDY" => "2020-07-01 #{hour}#{offset}", "German, DMY" => "01.07.2020 #{hour} #{short}",
			    "SQL, DMY" => "01/07/2020 #{hour} #{short}" }[style]
		[name, zone, style, instant, path, limit, who]
	end
end

# What stays with the session from one transaction to the next: statements, and what they answer if they do, four times.
def holds(worker)
	k = Digest::MD5.hexdigest(worker)[0, 7].to_i(16)
	locks = "select count(*)::text from pg_locks where locktype = 'advisory' and objid = #{k}"
	[
		[["create temp table mine as select '#{worker}'::text as w, n from generate_series(1, 5) n"],
		 ["insert into mine values ('#{worker}', 6)"],
		 ["select count(*)::text, min(w), max(w) from mine", [["6", worker, worker]]],
		 ["drop table mine"]],
		[["select pg_advisory_lock(#{k})::text", [[""]]], [locks, [["1"]]],
		 ["select pg_advisory_unlock(#{k})::text", [["true"]]], [locks, [["0"]]]],
		[["prepare mine (int) as select ($1 + #{k})::text"], ["execute mine (1)", [[(k + 1).to_s]]],
		 ["execute mine (2)", [[(k + 2).to_s]]], ["deallocate mine"]],
		[["declare mine cursor with hold for select n::text from generate_series(1, 5) n"],
		 ["fetch 2 from mine", [["1"], ["2"]]], ["fetch 2 from mine", [["3"], ["4"]]], ["close mine"]]
	]
end

# All that one worker has committed. A row is [worker, n, org, body, sum].
class Ledger
	attr_reader :worker, :org, :rows
	attr_accessor :counter

	def initialize(worker, org, rng)
		@worker, @org, @rng = worker, org, rng
		@counter, @next, @rows = 0, 1, {}
	end

	def text(length)
		Array.new(length) { ALPHABET.sample(random: @rng) }.join
	end

	def new_row(ahead = 0)
		n = @next + ahead
		body = text(@rng.rand(60))
		body = "#{body * 300}." if @rng.rand(50).zero?
		[@worker, n, @org, body, Digest::MD5.hexdigest("#{@worker}|#{n}|#{body}")]
	end

	def new_rows(count)
		Array.new(count) { |ahead| new_row(ahead) }
	end

	def keep(*rows)
		rows.each do |row|
			@rows[row[1]] = row
			@next = [@next, row[1] + 1].max
		end
	end

	# The number up to which rows are to be deleted, and those numbers.
	def oldest
		last = @rows.keys.sort.last(10).first || 0
		[last, @rows.keys.select { |n| n <= last }.sort]
	end

	def drop(numbers)
		numbers.each { |n| @rows.delete(n) }
	end

	# Compare rows as read, all of them text, in the order of n.
	def check(got)
		same(got.map { |row| row[1].to_i }, @rows.keys.sort, "numbers of the rows")
		got.each { |row| same(row, @rows[row[1].to_i].map(&:to_s), "row") }
	end

	def account
		digest = @rows.keys.sort.map { |n| "#{n}:#{@rows[n][4]};" }.join
		{ worker: @worker, org: @org, counter: @counter, rows: @rows.size, digest: Digest::MD5.hexdigest(digest) }
	end
end

# One of the pool's connections, with what it was told.
class Client
	attr_reader :pg
	attr_accessor :session

	def self.start_of(org)
		zone = ZONES.keys[(org[1..].to_i + SEED.to_i) % ZONES.size]
		Session.new("app:org=#{org}:ruby", zone, "ISO, MDY", PATHS[0], "0", "")
	end

	def self.connect(org)
		start = start_of(org)
		PG.connect(host: HOST, port: PORT, dbname: DATABASE, user: "app", password: PASSWORD, sslmode: "disable",
			   application_name: start.name, options: "-c TimeZone=#{start.zone}")
	end

	def initialize(org)
		@session = Client.start_of(org)
		@pg = Client.connect(org)
		STATEMENTS.each { |name, sql| @pg.prepare(name, sql) }
	end

	def run(name, *values)
		@pg.exec_prepared(name, values).values
	end
end

class Work
	RARE = %w[cancel timeout leave large]

	attr_reader :ledger

	def initialize(tally, org, place, pool)
		@tally, @org, @pool, @done = tally, org, pool, 0
		name = "#{DATABASE}-#{org}-#{place}"
		@rng = Random.new(Digest::MD5.hexdigest("#{SEED}/#{name}").to_i(16))
		@ledger = Ledger.new(name, org, @rng)
		@act = "begin"
	end

	def where
		"#{@ledger.worker}, act #{@act} (number #{@done}), seed #{SEED}"
	end

	def run(finish)
		lent { |c| c.pg.exec_params("insert into pools.counter values ($1, $2, 0)", [@ledger.worker, @org]) }
		acts = methods.grep(/^act_/).map { |name| name.to_s.delete_prefix("act_") }.sort.shuffle(random: @rng)
		likely = acts.flat_map { |name| [name] * (RARE.include?(name) ? 1 : 6) }
		acts.each { |name| play(name) }
		play(likely.sample(random: @rng)) while now < finish && @tally.faults.empty?
		play("look")
	rescue Exception => failure # told by the main thread
		code = failure.is_a?(PG::Error) && failure.result ? code_of(failure) : ""
		@tally.fault("#{where}\n#{code} #{failure.full_message(highlight: false)}")
	end

	def play(name)
		return unless @tally.faults.empty?
		@act = name
		@done += 1
		count = send("act_#{name}")
		@tally.count(name, count.is_a?(Integer) ? count : 1)
	end

	# Run the block with a connection of the pool, which is renewed now and then.
	def lent
		client = @pool.pop
		begin
			if @rng.rand(100).zero?
				client.pg.close
				client = Client.new(@org)
			end
			yield client
		ensure
			@pool << client
		end
	end

	def code_of(failure)
		failure.result.error_field(PG::Result::PG_DIAG_SQLSTATE)
	end

	# The block must fail with this SQLSTATE.
	def expect(code)
		yield
	rescue PG::Error => failure
		raise unless failure.result && code_of(failure) == code
		@tally.error(code)
	else
		raise Wrong, "no error where #{code} was due"
	end

	# The counter as it must be, and one more; nothing is committed yet.
	def count_up(c)
		same(c.run("lock", @ledger.worker), [[@ledger.counter.to_s, @org]], "counter")
		same(c.run("count up", @ledger.worker), [[(@ledger.counter + 1).to_s]], "counter + 1")
	end

	def usable(c)
		same(c.run("echo", @ledger.worker), [[@ledger.worker]], "after an error")
	end

	class Undone < StandardError; end

	def undone(c)
		c.pg.transaction do
			yield
			raise Undone
		end
	rescue Undone
		nil
	end

	# ---- acts

	def act_add
		row = @ledger.new_row
		lent { |c| c.run("row", *row) }
		@ledger.keep(row)
		1
	end

	def act_move
		row = @ledger.new_row
		lent do |c|
			c.pg.transaction do
				count_up(c)
				c.run("row", *row)
			end
		end
		@ledger.counter += 1
		@ledger.keep(row)
		1
	end

	def act_undo
		lent { |c| undone(c) { count_up(c); c.run("row", *@ledger.new_row) } }
		1
	end

	def act_save
		first, second = @ledger.new_rows(2)
		lent do |c|
			c.pg.transaction do
				c.run("row", *first)
				c.pg.exec("savepoint a")
				c.run("row", *second)
				expect("23505") { c.run("row", *first) }
				c.pg.exec("rollback to a")
				c.run("row", *second)
				c.pg.exec("release a")
			end
		end
		@ledger.keep(first, second)
		1
	end

	def act_fail
		lent do |c|
			expect("22012") { c.run("by", 0) }
			expect("42P01") { c.pg.exec_params("select * from pools.no_such_table where x = $1", [1]) }
			expect("22P02") { c.run("by", "no number") }
			undone(c) do
				c.run("row", *@ledger.new_row)
				expect("22012") { c.run("by", 0) }
				expect("25P02") { c.run("echo", "x") }
			end
			usable(c)
		end
		5
	end

	# In single-row mode, or by a cursor.
	def act_look
		lent do |c|
			c.pg.transaction do
				@ledger.check(@rng.rand(2).zero? ? rows_one_by_one(c) : rows_by_cursor(c))
				same(c.run("lock", @ledger.worker), [[@ledger.counter.to_s, @org]], "counter")
			end
		end
		1
	end

	def rows_one_by_one(c)
		rows = []
		c.pg.send_query_params(OWN, [@ledger.worker])
		c.pg.set_single_row_mode
		c.pg.get_result.stream_each_row { |row| rows << row }
		c.pg.get_last_result
		rows
	end

	def rows_by_cursor(c)
		portion = [3, 10, 1000].sample(random: @rng)
		rows = []
		c.pg.exec_params("declare far cursor for #{OWN}", [@ledger.worker])
		loop do
			some = c.pg.exec("fetch #{portion} from far").values
			rows += some
			break if some.size < portion
		end
		rows
	end

	def see_who(c, session = c.session)
		same(c.pg.exec(WHO).values, [session.row], "settings")
	end

	def act_who
		lent { |c| see_who(c) }
		1
	end

	def act_set
		lent do |c|
			other = c.session.other(@rng)
			other.commands(["", "session"].sample(random: @rng)).each { |command| c.pg.exec(command) }
			c.session = other
			see_who(c)
		end
		4
	end

	def act_tryset
		lent do |c|
			["", "local"].each do |local|
				other = c.session.other(@rng)
				c.pg.exec("begin")
				other.commands(local).each { |command| c.pg.exec(command) }
				see_who(c, other)
				c.pg.exec(local.empty? ? "rollback" : "commit")
				see_who(c)
			end
		end
		4
	end

	def copy_in(c, rows)
		c.pg.copy_data("copy pools.line from stdin") { rows.each { |row| c.pg.put_copy_data("#{row.join("\t")}\n") } }
	end

	def act_copy
		rows = @ledger.new_rows(1 + @rng.rand(7))
		lent do |c|
			copy_in(c, rows)
			@ledger.keep(*rows)
			expect("23505") { copy_in(c, [@ledger.new_row, rows[0]]) }
			got = []
			c.pg.copy_data("copy (#{OWN.sub("$1", "'#{@ledger.worker}'")}) to stdout") do
				while (line = c.pg.get_copy_data)
					got << line.force_encoding("UTF-8").chomp.split("\t", -1)
				end
			end
			@ledger.check(got)
		end
		3
	end

	# Until the query has ended: a cancel that came too early hit nothing.
	def act_cancel
		lent do |c|
			over = false
			canceller = Thread.new do
				until over
					sleep 0.05
					c.pg.cancel unless over
				end
			end
			begin
				expect("57014") { c.pg.exec_params("select pg_sleep($1)", [30]) }
			ensure
				over = true
				canceller.join
			end
			usable(c)
		end
		2
	end

	def act_timeout
		lent do |c|
			expect("57014") do
				c.pg.transaction do
					c.run("row", *@ledger.new_row)
					c.pg.exec("set local statement_timeout = '20ms'")
					c.pg.exec("select pg_sleep(30)")
				end
			end
		end
		1
	end

	def act_large
		value = @ledger.text(1000) * 400
		lent { |c| raise Wrong, "large value" unless c.run("echo", value) == [[value]] }
		1
	end

	def act_adhoc
		lent do |c|
			8.times do
				k, x = @rng.rand(60), @rng.rand(1000)
				got = c.pg.exec_params("select $1::int + #{k}, $2::text", [x, @ledger.worker]).values
				same(got, [[(x + k).to_s, @ledger.worker]], "ad hoc query")
			end
		end
		8
	end

	# In pipeline mode; what stands between two Syncs is one transaction.
	def act_batch
		rows = @ledger.new_rows(20)
		lent do |c|
			c.pg.enter_pipeline_mode
			rows.each { |row| c.pg.send_query_prepared("row", row) }
			c.pg.pipeline_sync
			[@ledger.new_row(20), rows[0], @ledger.new_row(21)].each { |row| c.pg.send_query_prepared("row", row) }
			c.pg.pipeline_sync
			c.pg.send_query_prepared("echo", [@ledger.worker])
			c.pg.pipeline_sync
			same(results(c), [:PGRES_COMMAND_OK] * 20, "rows of a pipeline")
			@ledger.keep(*rows)
			same(results(c), %i[PGRES_COMMAND_OK 23505 PGRES_PIPELINE_ABORTED], "a pipeline with an error")
			same(results(c), [[[@ledger.worker]]], "behind it")
			c.pg.exit_pipeline_mode
		end
		3
	end

	# What was answered up to the next Sync: a status, an SQLSTATE or rows for each.
	def results(c)
		got = []
		loop do
			result = c.pg.get_result
			next if result.nil?
			case result.result_status
			when PG::PGRES_PIPELINE_SYNC then return got
			when PG::PGRES_TUPLES_OK then got << result.values
			when PG::PGRES_FATAL_ERROR
				code = result.error_field(PG::Result::PG_DIAG_SQLSTATE)
				@tally.error(code)
				got << code.to_sym
			else got << result.res_status(result.result_status).to_sym
			end
		end
	end

	def act_hold
		lent do |c|
			holds(@ledger.worker).sample(random: @rng).each do |command, answer|
				rows = @rng.rand(2).zero? ? c.pg.exec(command).values : c.pg.exec_params(command, []).values
				same(rows, answer, command) if answer
			end
		end
		4
	end

	def act_trim
		last, numbers = @ledger.oldest
		lent { |c| same(c.run("trim", @ledger.worker, last).flatten.map(&:to_i).sort, numbers, "numbers of deleted rows") }
		@ledger.drop(numbers)
		1
	end

	def act_leave
		pg = Client.connect(@org)
		pg.exec("begin")
		pg.exec_params(STATEMENTS["row"], @ledger.new_row)
		if @rng.rand(2).zero?
			inner = BasicSocket.for_fd(pg.socket_io.fileno)
			inner.autoclose = false
			inner.shutdown(Socket::SHUT_RDWR)
		end
		pg.close
		1
	end
end

tally = Tally.new
finish = now + SECONDS.to_f
works = (1..ORGS.to_i).flat_map do |number|
	pool = Queue.new
	POOL.times { pool << Client.new("o#{number}") }
	Array.new(WORKERS.to_i) { |place| Work.new(tally, "o#{number}", place, pool) }
end
threads = works.map { |work| Thread.new { work.run(finish) } }
last = now + FAR
threads.zip(works).each do |thread, work|
	next if thread.join([last - now, 0.1].max)
	tally.fault("hangs: #{work.where}\n#{thread.backtrace&.join("\n")}")
end
unless tally.faults.empty?
	warn tally.faults.first(3).join("\n\n"), "#{tally.faults.size} faults"
	exit! 1
end
puts JSON.generate(acts: tally.acts, transactions: tally.transactions, errors: tally.errors,
		   workers: works.map { |work| work.ledger.account })
$stdout.flush
exit! 0
