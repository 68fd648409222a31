# Jobs of Sidekiq, which notes what they do in lists. `sidekiq --require` loads this file.

require "redis"
require "sidekiq"

# What the jobs write with.
def redis
  Redis.new(url: ENV.fetch("REDIS_URL"))
end

class Note
  include Sidekiq::Worker

  def perform(key)
    redis.rpush(key, Time.now.to_f)
  end
end

# Succeeds when it is tried for the third time.
class Stubborn
  include Sidekiq::Worker
  sidekiq_retry_in { 1 }

  def perform(key)
    raise "once more" if redis.rpush(key, Time.now.to_f) < 3
  end
end

Sidekiq.options[:poll_interval_average] = 0.2
