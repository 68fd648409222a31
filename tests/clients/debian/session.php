<?php
// Adds to a number in a session that others of its kind use too; phpredis locks it meanwhile.
//
//     php session.php PORT ROUNDS

[, $port, $rounds] = $argv;
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://127.0.0.1:$port");
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
ini_set('redis.session.locking_enabled', '1');
ini_set('redis.session.lock_retries', '-1');
ini_set('redis.session.lock_wait_time', '2000');
session_id('shared');
for ($i = 0; $i < (int) $rounds; $i++) {
    if (!session_start()) {
        exit(1);
    }
    $_SESSION['number'] = ($_SESSION['number'] ?? 0) + 1;
    session_write_close();
}
