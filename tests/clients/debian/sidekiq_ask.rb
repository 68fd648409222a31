# Asks for Sidekiq's jobs: one at once, one in a second, one in an hour, one that fails at first.

require_relative "sidekiq_jobs"

Note.perform_async("soon")
Note.perform_in(1, "late")
Note.perform_in(3600, "never")
Stubborn.perform_async("stubborn")
