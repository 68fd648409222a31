<?php
// phpredis: scripts, alone and in a transaction.
//
//     php scripts.php PORT

function same($got, $expected)
{
    if ($got !== $expected) {
        [$got, $expected] = [var_export($got, true), var_export($expected, true)];
        fwrite(STDERR, "got $got, expected $expected\n");
        exit(1);
    }
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1], 10);
$spend = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
    return {redis.call('DEL', KEYS[1]), 'spent'}";
$redis->set('code', '493817', ['nx', 'ex' => 100]);
same($redis->eval($spend, ['code', '1'], 1), false);
same($redis->getLastError(), null);
same($redis->eval($spend, ['code', '493817'], 1), [1, 'spent']);
$sha = $redis->script('load', $spend);
same($sha, sha1($spend));
same($redis->script('exists', $sha, str_repeat('0', 40)), [1, 0]);
$redis->set('code', 'x');
same($redis->multi()->evalSha($sha, ['code', 'x'], 1)->exists('code')->exec(), [[1, 'spent'], 0]);
$redis->script('flush');
same($redis->evalSha($sha, ['code', 'x'], 1), false);
same(strncmp($redis->getLastError(), 'NOSCRIPT', 8), 0);
