<?php
// Symfony: Messenger over streams (delays, acknowledgements, what a dead worker left), Lock, Cache with tags.
//
//     php symfony.php PORT

require 'Symfony/Component/Messenger/Bridge/Redis/autoload.php';
require 'Symfony/Component/Messenger/autoload.php';
require 'Symfony/Component/Lock/autoload.php';
require 'Symfony/Component/Cache/autoload.php';

use Symfony\Component\Cache\Adapter\RedisAdapter;
use Symfony\Component\Cache\Adapter\RedisTagAwareAdapter;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Messenger\Bridge\Redis\Transport\Connection;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransport;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

function same($got, $expected)
{
    if ($got !== $expected) {
        [$got, $expected] = [var_export($got, true), var_export($expected, true)];
        fwrite(STDERR, "got $got, expected $expected\n" . (new Exception())->getTraceAsString() . "\n");
        exit(1);
    }
}

function transport($port, $consumer)
{
    $options = ['consumer' => $consumer, 'redeliver_timeout' => 1, 'claim_interval' => 100, 'delete_after_ack' => true];
    $connection = Connection::fromDsn("redis://127.0.0.1:$port/orders/workers/$consumer", $options);
    return new RedisTransport($connection, new PhpSerializer());
}

function next_of($transport, $seconds)
{
    $end = microtime(true) + $seconds;
    do {
        foreach ($transport->get() as $envelope) {
            return $envelope;
        }
        usleep(20000);
    } while (microtime(true) < $end);
    return null;
}

final class Order
{
    public $number;

    public function __construct($number)
    {
        $this->number = $number;
    }
}

$port = (int) $argv[1];
[$one, $other] = [transport($port, 'one'), transport($port, 'other')];
foreach ([1, 2, 3] as $number) {
    $one->send(new Envelope(new Order($number)));
}
$asked = microtime(true);
$one->send(new Envelope(new Order(4), [new DelayStamp(1500)]));
$first = next_of($one, 5);
same($first->getMessage()->number, 1);
$one->ack($first);
// The first worker takes one and dies; the other gets it after a while.
same(next_of($one, 5)->getMessage()->number, 2);
$numbers = [];
while (count($numbers) < 3 && $envelope = next_of($other, 10)) {
    $number = $envelope->getMessage()->number;
    $numbers[] = $number;
    if ($number === 4) {
        same(microtime(true) - $asked > 1.49, true);
    }
    $number === 3 ? $other->reject($envelope) : $other->ack($envelope);
}
sort($numbers);
same($numbers, [2, 3, 4]);
same(next_of($other, 0.2), null);

$redis = new Redis();
$redis->connect('127.0.0.1', $port, 10);
$factory = new LockFactory(new RedisStore($redis));
[$mine, $yours] = [$factory->createLock('door', 1.0), $factory->createLock('door', 1.0)];
same($mine->acquire(), true);
same($yours->acquire(), false);
$mine->refresh();
same($mine->isAcquired(), true);
$mine->release();
same($yours->acquire(), true);
usleep(1100000);
same($yours->isAcquired(), false);
$readers = [$factory->createLock('book', 10.0), $factory->createLock('book', 10.0)];
same($readers[0]->acquireRead(), true);
same($readers[1]->acquireRead(), true);
same($readers[0]->acquire(), false);
$readers[1]->release();
same($readers[0]->acquire(), true);

foreach ([new RedisAdapter($redis, 'plain'), new RedisTagAwareAdapter($redis, 'tagged')] as $cache) {
    $made = 0;
    $make = function ($item) use (&$made) {
        $item->expiresAfter(1);
        return ['made' => ++$made];
    };
    same($cache->get('key', $make), ['made' => 1]);
    same($cache->get('key', $make), ['made' => 1]);
    usleep(1100000);
    same($cache->hasItem('key'), false);
    same($cache->deleteItem('key'), true);
}
foreach (['a', 'b'] as $name) {
    $item = $cache->getItem($name);
    $item->set($name)->tag($name === 'a' ? ['both', 'first'] : ['both']);
    $cache->save($item);
}
$cache->invalidateTags(['first']);
same([$cache->hasItem('a'), $cache->hasItem('b')], [false, true]);
$cache->invalidateTags(['both']);
same($cache->hasItem('b'), false);
same($cache->clear(), true);
