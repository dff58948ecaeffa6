# Perl's DBD::Pg, as a preforking server uses it: a process per worker, with a few handles of its own, statements prepared by
# name at their second execution and given up by DEALLOCATE.

use strict;
use warnings;
use utf8;

use DBD::Pg qw(:async);
use DBI;
use Digest::MD5 qw(md5_hex);
use Encode qw(encode_utf8);
use JSON::PP;
use Time::HiRes qw(time sleep);

use constant POOL => 3;
my @ALPHABET = split //, q(abcdefghijklmnopqrstuvwxyz'"$;:,.é );
my %ZONES = (
	'UTC' => ['12:00:00', '+00', 'UTC'], 'America/New_York' => ['08:00:00', '-04', 'EDT'],
	'Asia/Kolkata' => ['17:30:00', '+05:30', 'IST']);
my @STYLES = ('ISO, MDY', 'German, DMY', 'SQL, DMY');
my @PATHS = ('"$user", public', 'pools, public', 'public, pools');
my @LIMITS = ('0', '5min', '400s');
my $WHO = q(select current_setting('application_name'), current_setting('TimeZone'), current_setting('DateStyle'),
	'2020-07-01 12:00:00+00'::timestamptz::text, current_setting('search_path'), current_setting('statement_timeout'),
	coalesce(current_setting('app.who', true), ''));
my $ROW = 'insert into pools.line values (?, ?, ?, ?, ?)';
my $OWN = 'select worker, n, org, body, sum from pools.line where worker = ? order by n';

my ($host, $port, $database, $password, $seconds, $seed, $orgs, $workers) = @ARGV;
my $json = JSON::PP->new->canonical;

# Of the one worker that this process is.
my ($worker, $org, $act, $done) = ('', '', 'begin', 0);
my ($counter, $next, %rows) = (0, 1);
my (%acts, %errors);
my $transactions = 0;

# ---- values

sub pick { return $_[rand @_] }

# A number and its text are the same.
sub as_text { return ref $_[0] ? [map { as_text($_) } @{$_[0]}] : "$_[0]" }

sub same {
	my ($got, $want, $what) = @_;
	my ($a, $b) = map { $json->encode([as_text($_)]) } $got, $want;
	die "$what: got " . substr($a, 0, 500) . ", want " . substr($b, 0, 500) . "\n" if $a ne $b;
}

sub text { return join '', map { pick(@ALPHABET) } 1 .. $_[0] }

sub new_row {
	my $n = $next + ($_[0] // 0);
	my $body = text(int rand 60);
	$body = $body x 300 . '.' if rand() < 0.02;
	return [$worker, $n, $org, $body, md5_hex(encode_utf8("$worker|$n|$body"))];
}

sub new_rows { return map { new_row($_) } 0 .. $_[0] - 1 }

sub keep {
	for my $row (@_) {
		$rows{$row->[1]} = $row;
		$next = $row->[1] + 1 if $next <= $row->[1];
	}
}

sub numbers { return sort { $a <=> $b } keys %rows }

# Compare rows as read, in the order of n.
sub check {
	same([map { $_->[1] } @_], [numbers()], 'numbers of the rows');
	same($_, $rows{$_->[1]}, 'row') for @_;
}

sub account {
	my $digest = md5_hex(join '', map { "$_:$rows{$_}[4];" } numbers());
	return {worker => $worker, org => $org, counter => $counter, rows => scalar(keys %rows), digest => $digest};
}

# ---- connections; each has the settings that it was told in private_session:
# application_name, TimeZone, DateStyle, search_path, statement_timeout, app.who

my $state = ''; # SQLSTATE of the last error: what follows (ROLLBACK, a handle's end by DEALLOCATE) clears that of the handles

sub connection {
	my $zone = (sort keys %ZONES)[($seed + ord substr $org, -1) % 3];
	my $name = "app:org=$org:perl";
	my $dbh = DBI->connect("dbi:Pg:host=$host;port=$port;dbname=$database;sslmode=disable;application_name=$name;"
		. "options='-c TimeZone=$zone'", 'app', $password, {RaiseError => 1, PrintError => 0, AutoCommit => 1, pg_enable_utf8 => 1,
		HandleError => sub { $state = $_[1]->state; return 0 }});
	$dbh->{private_session} = [$name, $zone, 'ISO, MDY', $PATHS[0], '0', ''];
	$dbh->{pg_switch_prepared} = pick(1, 2, 5);
	return $dbh;
}

my @pool;

# One of the pool's, renewed now and then.
sub lent {
	my $place = int rand POOL;
	if ($pool[$place] && rand() < 0.01) {
		$pool[$place]->disconnect;
		$pool[$place] = undef;
	}
	return $pool[$place] //= connection();
}

# The block must fail with this SQLSTATE.
sub expect(&$) {
	my ($block, $code) = @_;
	$state = '';
	if (eval { $block->(); 1 }) {
		die "no error where $code was due\n";
	}
	die $@ if $state ne $code;
	$errors{$code}++;
}

# Run the block in a transaction and end it as said; what it throws rolls back.
sub transaction(&$;$) {
	my ($block, $dbh, $end) = @_;
	$dbh->begin_work;
	if (!eval { $block->(); 1 }) {
		my $failure = $@;
		eval { $dbh->rollback };
		die $failure;
	}
	($end // 'commit') eq 'commit' ? $dbh->commit : $dbh->rollback;
}

# prepare_cached keeps the statement and its name; prepare gives it up by DEALLOCATE.
sub run {
	my ($dbh, $sql, @values) = @_;
	my $sth = rand() < 0.7 ? $dbh->prepare_cached($sql) : $dbh->prepare($sql);
	my $count = $sth->execute(@values);
	return $sth->{NUM_OF_FIELDS} ? $sth->fetchall_arrayref : $count;
}

sub usable {
	my ($dbh) = @_;
	same(run($dbh, 'select ?::text', $worker), [[$worker]], 'after an error');
}

# The counter as it must be, and one more; nothing is committed yet.
sub count_up {
	my ($dbh) = @_;
	my ($locked) = @{run($dbh, 'select n, org from pools.counter where worker = ? for update', $worker)};
	same($locked, [$counter, $org], 'counter');
	my ($raised) = @{run($dbh, 'update pools.counter set n = n + 1 where worker = ? returning n', $worker)};
	same($raised, [$counter + 1], 'counter + 1');
}

# What stays with the session from one transaction to the next: statements, and what they answer if they do, four times.
sub holds {
	my $k = hex substr md5_hex($worker), 0, 7;
	my $locks = "select count(*)::text from pg_locks where locktype = 'advisory' and objid = $k";
	return (
		[["create temp table mine as select '$worker'::text as w, n from generate_series(1, 5) n"],
			["insert into mine values ('$worker', 6)"],
			['select count(*)::text, min(w), max(w) from mine', [['6', $worker, $worker]]],
			['drop table mine']],
		[["select pg_advisory_lock($k)::text", [['']]], [$locks, [['1']]],
			["select pg_advisory_unlock($k)::text", [['true']]], [$locks, [['0']]]],
		[["prepare mine (int) as select (\$1 + $k)::text"], ['execute mine (1)', [[$k + 1]]],
			['execute mine (2)', [[$k + 2]]], ['deallocate mine']],
		[['declare mine cursor with hold for select n::text from generate_series(1, 5) n'],
			['fetch 2 from mine', [['1'], ['2']]], ['fetch 2 from mine', [['3'], ['4']]], ['close mine']],
	);
}

# ---- acts: each gives the number of its transactions

my %ACTS = (
	add => sub {
		my ($dbh) = @_;
		my $row = new_row();
		run($dbh, $ROW, @$row);
		keep($row);
		return 1;
	},

	move => sub {
		my ($dbh) = @_;
		my $row = new_row();
		transaction { count_up($dbh); run($dbh, $ROW, @$row) } $dbh;
		$counter++;
		keep($row);
		return 1;
	},

	undo => sub {
		my ($dbh) = @_;
		transaction { count_up($dbh); run($dbh, $ROW, @{new_row()}) } $dbh, 'rollback';
		return 1;
	},

	save => sub {
		my ($dbh) = @_;
		my ($first, $second) = new_rows(2);
		transaction {
			run($dbh, $ROW, @$first);
			$dbh->pg_savepoint('a');
			run($dbh, $ROW, @$second);
			expect { run($dbh, $ROW, @$first) } '23505';
			$dbh->pg_rollback_to('a');
			run($dbh, $ROW, @$second);
			$dbh->pg_release('a');
		} $dbh;
		keep($first, $second);
		return 1;
	},

	fail => sub {
		my ($dbh) = @_;
		expect { run($dbh, 'select 1 / ?::int', 0) } '22012';
		expect { run($dbh, 'select * from pools.no_such_table where x = ?', 1) } '42P01';
		expect { run($dbh, 'select ?::int', 'no number') } '22P02';
		transaction {
			run($dbh, $ROW, @{new_row()});
			# A handle that is not kept would end here, and DBD::Pg rolls the transaction back before it says DEALLOCATE.
			expect { $dbh->prepare_cached('select 1 / ?::int')->execute(0) } '22012';
			expect { $dbh->do('select 1') } '25P02';
		} $dbh, 'rollback';
		usable($dbh);
		return 5;
	},

	look => sub {
		my ($dbh) = @_;
		my @got;
		my $portion = pick(3, 10, 1000);
		transaction {
			$dbh->do('declare far cursor for ' . $OWN =~ s/\?/$dbh->quote($worker)/er);
			while (1) {
				my $some = $dbh->selectall_arrayref("fetch $portion from far");
				push @got, @$some;
				last if @$some < $portion;
			}
			check(@got);
			my ($row) = @{run($dbh, 'select n, org from pools.counter where worker = ?', $worker)};
			same($row, [$counter, $org], 'counter');
		} $dbh;
		return 1;
	},

	who => sub {
		my ($dbh) = @_;
		see_who($dbh, $dbh->{private_session});
		return 1;
	},

	set => sub {
		my ($dbh) = @_;
		my $new = other_session($dbh);
		$dbh->do($_) for commands($new, pick('', 'session'));
		$dbh->{private_session} = $new;
		see_who($dbh, $new);
		return 4;
	},

	tryset => sub {
		my ($dbh) = @_;
		for my $local ('', 'local') {
			my $new = other_session($dbh);
			transaction {
				$dbh->do($_) for commands($new, $local);
				see_who($dbh, $new);
			} $dbh, $local ? 'commit' : 'rollback';
			see_who($dbh, $dbh->{private_session});
		}
		return 4;
	},

	copy => sub {
		my ($dbh) = @_;
		my @some = new_rows(1 + int rand 7);
		my $line = sub { return join("\t", @{$_[0]}) . "\n" };
		$dbh->do('copy pools.line from stdin');
		$dbh->pg_putcopydata($line->($_)) for @some;
		$dbh->pg_putcopyend;
		keep(@some);
		expect {
			$dbh->do('copy pools.line from stdin');
			$dbh->pg_putcopydata($line->($_)) for new_row(), $some[0];
			$dbh->pg_putcopyend;
		} '23505';
		$dbh->do('copy (' . $OWN =~ s/\?/$dbh->quote($worker)/er . ') to stdout');
		my ($got, @got) = ('');
		while ($dbh->pg_getcopydata(\$got) >= 0) {
			chomp $got;
			utf8::decode($got) unless utf8::is_utf8($got);
			push @got, [split /\t/, $got, -1];
		}
		check(@got);
		return 3;
	},

	# A cancel that came too early hits nothing, and pg_cancel waits for the end of the query: so a short one, and again.
	cancel => sub {
		my ($dbh) = @_;
		for my $wait (0.03, 0.1, 0.3, 1) {
			my $sth = $dbh->prepare('select pg_sleep(?)', {pg_async => PG_ASYNC});
			$sth->execute($wait + 1);
			sleep $wait;
			if ($dbh->pg_cancel) {
				$errors{'57014'}++;
				usable($dbh);
				return 2;
			}
		}
		die "no cancel took effect\n";
	},

	timeout => sub {
		my ($dbh) = @_;
		expect {
			transaction {
				run($dbh, $ROW, @{new_row()});
				$dbh->do("set local statement_timeout = '20ms'");
				$dbh->do('select pg_sleep(30)');
			} $dbh;
		} '57014';
		return 1;
	},

	large => sub {
		my ($dbh) = @_;
		my $value = text(1000) x 400;
		die "large value\n" if run($dbh, 'select ?::text', $value)->[0][0] ne $value;
		return 1;
	},

	adhoc => sub {
		my ($dbh) = @_;
		for (1 .. 8) {
			my ($k, $x) = (int rand 60, int rand 1000);
			same(run($dbh, "select ?::int + $k, ?::text", $x, $worker), [[$x + $k, $worker]], 'ad hoc query');
		}
		return 8;
	},

	batch => sub {
		my ($dbh) = @_;
		my @some = new_rows(20);
		transaction {
			my $sth = $dbh->prepare($ROW);
			$sth->execute_for_fetch(do { my @left = @some; sub { return shift @left } });
		} $dbh;
		keep(@some);
		my @more = new_rows(3);
		my @inserts = map { 'insert into pools.line values (' . join(', ', map { $dbh->quote($_) } @$_) . ')' } @more;
		expect { $dbh->do(join '; ', @inserts, $inserts[0], 'select 1') } '23505';
		$dbh->do(join '; ', @inserts);
		keep(@more);
		return 3;
	},

	hold => sub {
		my ($dbh) = @_;
		for my $step (@{pick(holds())}) {
			my ($command, $answer) = @$step;
			$answer ? same($dbh->selectall_arrayref($command), $answer, $command) : $dbh->do($command);
		}
		return 4;
	},

	trim => sub {
		my ($dbh) = @_;
		my @all = numbers();
		my $last = @all ? $all[@all > 10 ? -10 : 0] : 0;
		my $gone = run($dbh, 'delete from pools.line where worker = ? and n <= ? returning n', $worker, $last);
		my @numbers = sort { $a <=> $b } map { $_->[0] } @$gone;
		same(\@numbers, [grep { $_ <= $last } @all], 'numbers of deleted rows');
		delete @rows{@numbers};
		return 1;
	},

	leave => sub {
		my $dbh = connection();
		$dbh->begin_work;
		run($dbh, $ROW, @{new_row()});
		if (rand() < 0.5) {
			open(my $inner, '+<&=', $dbh->{pg_socket}) or die "no handle: $!\n";
			shutdown($inner, 2);
			$dbh->{InactiveDestroy} = 1;
		}
		eval { $dbh->disconnect };
		return 1;
	},
);

sub see_who {
	my ($dbh, $session) = @_;
	my ($name, $zone, $style, @others) = @$session;
	my ($hour, $offset, $short) = @{$ZONES{$zone}};
	my %instants = ('ISO, MDY' => "2020-07-01 $hour$offset", 'German, DMY' => "01.07.2020 $hour $short",
		'SQL, DMY' => "01/07/2020 $hour $short");
	same(run($dbh, $WHO), [[$name, $zone, $style, $instants{$style}, @others]], 'settings');
}

# Settings to change to; the part of the name that tells the org stays.
sub other_session {
	return ["app:org=$org:" . int(rand 1000) . "'x", pick(sort keys %ZONES), pick(@STYLES), pick(@PATHS), pick(@LIMITS), int rand 1000];
}

sub commands {
	my ($session, $local) = @_;
	my $name = $session->[0] =~ s/'/''/gr;
	return ("set $local application_name = '$name'", "set $local TimeZone to '$session->[1]'", "set $local datestyle = $session->[2]",
		"set $local search_path to $session->[3]", "set $local statement_timeout to '$session->[4]'", "set $local app.who to '$session->[5]'");
}

# ---- one worker

sub play {
	($act) = @_;
	$done++;
	$transactions += $ACTS{$act}->(lent());
	$acts{$act}++;
}

sub work {
	my ($end) = @_;
	run(lent(), 'insert into pools.counter values (?, ?, 0)', $worker, $org);
	my @once = sort keys %ACTS;
	my @likely = map { my $name = $_; ($name) x ($name =~ /^(cancel|timeout|leave|large)$/ ? 1 : 6) } @once;
	play(splice @once, rand @once, 1) while @once;
	play(pick(@likely)) while time < $end;
	play('look');
}

# ---- all of them

sub spawn {
	my ($number, $place, $end) = @_;
	pipe(my $from, my $to) or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	return {pid => $pid, from => $from} if $pid;
	close $from;
	($org, $worker) = ("o$number", "$database-o$number-$place");
	srand(hex substr md5_hex("$seed/$worker"), 0, 8);
	my $fine = eval {
		local $SIG{ALRM} = sub { die "hangs\n" };
		alarm($seconds + 20 * ($ENV{PGWEIR_SLOW} // 1));
		work($end);
		alarm 0;
		1;
	};
	print $to $json->encode($fine ? {acts => \%acts, errors => \%errors, transactions => $transactions, account => account()}
		: {fault => "$worker, act $act (number $done), seed $seed:\n$state $@"});
	close $to;
	exit 0;
}

my $end = time + $seconds;
my (@children, @accounts, @faults);
for my $number (1 .. $orgs) {
	push @children, spawn($number, $_, $end) for 0 .. $workers - 1;
}
for my $child (@children) {
	my $said = do { local $/; readline $child->{from} };
	waitpid $child->{pid}, 0;
	my $told = $said ? $json->decode($said) : {fault => "a worker ended without a word: $?"};
	if ($told->{fault}) {
		kill 'TERM', map { $_->{pid} } grep { $_ != $child } @children if !@faults;
		push @faults, $told->{fault};
		next;
	}
	push @accounts, $told->{account};
	$acts{$_} += $told->{acts}{$_} for keys %{$told->{acts}};
	$errors{$_} += $told->{errors}{$_} for keys %{$told->{errors}};
	$transactions += $told->{transactions};
}
if (@faults) {
	print STDERR "$faults[0]\n", scalar(@faults), " faults\n";
	exit 1;
}
print $json->encode({acts => \%acts, errors => \%errors, transactions => $transactions, workers => \@accounts}), "\n";
