<?php
// Laravel: its cache with tags and locks, its limiters and its queue, over phpredis.
//
//     php laravel.php PORT

require 'Illuminate/autoload.php';

use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Cache\RateLimiter;
use Illuminate\Container\Container;
use Illuminate\Queue\RedisQueue;
use Illuminate\Redis\RedisManager;

function same($got, $expected)
{
    if ($got !== $expected) {
        [$got, $expected] = [var_export($got, true), var_export($expected, true)];
        fwrite(STDERR, "got $got, expected $expected\n" . (new Exception())->getTraceAsString() . "\n");
        exit(1);
    }
}

$app = new Container();
$manager = new RedisManager($app, 'phpredis', ['default' => ['host' => '127.0.0.1', 'port' => (int) $argv[1]]]);
$store = new RedisStore($manager, 'cache:');
$cache = new Repository($store);
$made = 0;
$make = function () use (&$made) { return ++$made; };
same($cache->remember('key', 1, $make), 1);
same((int) $cache->remember('key', 1, $make), 1);
same($cache->add('key', 'other', 10), false);
usleep(1100000);
same($cache->add('key', 'other', 10), true);
same($cache->increment('number'), 1);
same($cache->many(['key', 'nothing']), ['key' => 'other', 'nothing' => null]);
$cache->tags(['both', 'first'])->put('a', 1, 100);
$cache->tags(['both'])->put('b', 2, 100);
$cache->tags('first')->flush();
same([$cache->tags(['both', 'first'])->get('a'), (int) $cache->tags(['both'])->get('b')], [null, 2]);
[$mine, $yours] = [$store->lock('door', 1), $store->lock('door', 1)];
same([$mine->get(), $yours->get()], [true, false]);
same($yours->release(), false);
same($mine->release(), true);
same($yours->get(), true);
same($yours->block(2, fn () => 'in'), 'in');
$limiter = new RateLimiter($cache);
same([$limiter->attempt('mail', 2, fn () => 'sent', 1), $limiter->attempt('mail', 2, fn () => 'sent', 1),
    $limiter->attempt('mail', 2, fn () => 'sent', 1)], ['sent', 'sent', false]);
$connection = $manager->connection();
$ran = [];
foreach ([1, 2, 3] as $nth) {
    $connection->throttle('calls')->block(0)->allow(2)->every(10)->then(
        function () use (&$ran, $nth) { $ran[] = $nth; }, fn () => null);
    $connection->funnel('room')->block(0)->limit(1)->releaseAfter(10)->then(
        function () use (&$ran, $nth) { $ran[] = -$nth; }, fn () => null);
}
same($ran, [1, -1, 2, -2, -3]);
$queue = new RedisQueue($manager, 'default', null, 1);
$queue->setContainer($app);
$queue->pushRaw(json_encode(['id' => 'one', 'attempts' => 0]));
$job = $queue->pop();
same([$job->payload()['id'], $job->attempts(), $queue->size()], ['one', 1, 1]);
same($queue->pop(), null);
sleep(2);
$again = $queue->pop();
same([$again->payload()['id'], $again->attempts()], ['one', 2]);
$again->release(1);
same($queue->pop(), null);
sleep(2);
$again = $queue->pop();
same($again->attempts(), 3);
$again->delete();
same($queue->size(), 0);
