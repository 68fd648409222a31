# Redis.pm: a lock that a script gives up, and scripts that fail.
#
#     perl lock.pl PORT

use strict;
use warnings;
use Redis;

my $redis = Redis->new(server => "127.0.0.1:$ARGV[0]", read_timeout => 10);
my $unlock = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

sub same {
    my ($got, $expected) = @_;
    die "got $got, expected $expected\n" if $got ne $expected;
}

same($redis->set('door', 'mine', 'NX', 'EX', 100), 'OK');
same(defined $redis->set('door', 'yours', 'NX') ? 1 : 0, 0);
same($redis->eval($unlock, 1, 'door', 'yours'), 0);
my $sha = $redis->script_load($unlock);
same($redis->evalsha($sha, 1, 'door', 'mine'), 1);
same($redis->exists('door'), 0);
same(join(',', @{$redis->script_exists($sha, '0' x 40)}), '1,0');
eval { $redis->eval("return redis.call('INCR', KEYS[1], 'x')", 1, 'n') };
die "not refused: $@\n" unless $@ =~ /Wrong number of args/;
