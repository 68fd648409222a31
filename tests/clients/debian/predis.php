<?php
// Predis: pipelines, transactions that watch, scripts as commands of their own, messages, sessions.
//
//     php predis.php PORT

require 'Predis/autoload.php';

function same($got, $expected)
{
    if ($got !== $expected) {
        [$got, $expected] = [var_export($got, true), var_export($expected, true)];
        fwrite(STDERR, "got $got, expected $expected\n" . (new Exception())->getTraceAsString() . "\n");
        exit(1);
    }
}

class IncrementBelow extends Predis\Command\ScriptCommand
{
    public function getKeysCount()
    {
        return 1;
    }

    public function getScript()
    {
        return "local number = redis.call('INCR', KEYS[1])
            if number > tonumber(ARGV[1]) then redis.call('DECR', KEYS[1]) return redis.error_reply('FULL no more') end
            redis.call('PEXPIRE', KEYS[1], ARGV[2]) return number";
    }
}

$server = ['host' => '127.0.0.1', 'port' => (int) $argv[1]];
$client = new Predis\Client($server);
$client->getProfile()->defineCommand('incrementbelow', 'IncrementBelow');
same($client->incrementbelow('number', 2, 300), 1);
same($client->incrementbelow('number', 2, 300), 2);
try {
    $client->incrementbelow('number', 2, 300);
    same('an error', 'none');
} catch (Predis\Response\ServerException $error) {
    same($error->getErrorType(), 'FULL');
}
usleep(310000);
same($client->exists('number'), 0);
$replies = $client->pipeline(function ($pipe) {
    for ($i = 0; $i < 1000; $i++) {
        $pipe->set("key:$i", $i, 'EX', 100);
        $pipe->incrby("key:$i", 1);
    }
});
same(count($replies), 2000);
same($replies[1999], 1000);
same(count(iterator_to_array(new Predis\Collection\Iterator\Keyspace($client, 'key:*'), false)), 1000);
$tries = 0;
$other = new Predis\Client($server);
$replies = $client->transaction(['watch' => 'balance', 'cas' => true, 'retry' => 3], function ($tx) use (&$tries, $other) {
    $balance = (int) $tx->get('balance');
    if ($tries++ === 0) {
        $other->set('balance', 10);
    }
    $tx->multi();
    $tx->set('balance', $balance + 1);
    $tx->get('balance');
});
same([$tries, $replies[1]], [2, '11']);
$loop = $client->pubSubLoop();
$loop->subscribe('news');
$heard = [];
foreach ($loop as $message) {
    if ($message->kind === 'subscribe') {
        $other->publish('news', 'one');
        $other->publish('news', 'end');
    } elseif ($message->kind === 'message') {
        $heard[] = $message->payload;
        if ($message->payload === 'end') {
            $loop->unsubscribe();
        }
    }
}
same($heard, ['one', 'end']);
$handler = new Predis\Session\Handler($client, ['gc_maxlifetime' => 1]);
$handler->write('session', 'words');
same($handler->read('session'), 'words');
usleep(1100000);
same($handler->read('session'), '');
same($client->hmset('hash', ['a' => '1', 'b' => '2'])->getPayload(), 'OK');
same($client->hgetall('hash'), ['a' => '1', 'b' => '2']);
