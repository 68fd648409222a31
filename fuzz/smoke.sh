#!/usr/bin/env bash
# Each fuzz target for a short while, from its seed corpus; a crash fails.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    fuzz=(cargo +nightly fuzz)
else
    export RUSTC_BOOTSTRAP=1
    fuzz=(cargo fuzz)
fi
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
for target in request session model snapshot entry; do
    cp -r "fuzz/corpus/$target" "$corpus/$target"
    "${fuzz[@]}" run "$target" "$corpus/$target" -- -max_total_time="$seconds" \
        -dict=fuzz/mayfly.dict -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1
done
