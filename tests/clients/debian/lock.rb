# redis-rb: adds to a number from threads, each within a lock that a script gives up.
#
#     ruby lock.rb PORT

require "redis"
require "securerandom"

THREADS = 4
ROUNDS = 25
UNLOCK = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0".freeze
GIVE_UP_S = 20

threads = Array.new(THREADS) do
  Thread.new do
    client = Redis.new(port: ARGV[0].to_i)
    sha = client.script(:load, UNLOCK)
    name = SecureRandom.hex
    give_up = Time.now + GIVE_UP_S
    ROUNDS.times do
      until client.set("door", name, nx: true, ex: 100)
        raise "waited in vain" if Time.now > give_up
        sleep 0.001
      end
      client.set("number", client.get("number").to_i + 1)
      raise "not unlocked" unless client.evalsha(sha, keys: ["door"], argv: [name]) == 1
    end
  end
end
threads.each(&:join)
