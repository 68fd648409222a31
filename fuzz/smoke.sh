#!/usr/bin/env bash
# Each fuzz target for FUZZ_SECONDS (10), from its seeds; a crash fails. Prints how many runs each made.
#
# Built with the compiler that builds everything else: RUSTC_BOOTSTRAP=1 lets it take the options of the
# address sanitizer, which otherwise a nightly alone takes.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1
seconds=${FUZZ_SECONDS:-10}
host=$(rustc -vV | sed -n 's/^host: //p')
if ! ls "$(rustc --print sysroot)/lib/rustlib/$host/lib/" | grep -q 'asan'; then
    echo "this Rust toolchain has no address sanitizer for $host, which the fuzz targets are built with;" >&2
    echo "rustup's toolchains for Linux on x86_64 and aarch64 have it" >&2
    exit 1
fi
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT

# Without a look for leaks after each input that allocated, which would take more time than the input.
smoke() {
    local target=$1
    cp -r "fuzz/corpus/$target" "$corpus/$target"
    cargo fuzz run "$target" "$corpus/$target" -- -max_total_time="$seconds" -detect_leaks=0 \
        -dict=fuzz/mayfly.dict -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        >"$corpus/$target.log" 2>&1
}

report() {
    printf '%-10s%s runs in %s s\n' "$1" \
        "$(sed -n 's/^stat::number_of_executed_units: //p' "$corpus/$1.log")" "$seconds"
}

cargo fuzz build
failed=0
for target in request session model snapshot entry; do
    if smoke "$target"; then
        report "$target"
    else
        failed=1
        echo "$target failed:"
        tail -n 60 "$corpus/$target.log"
    fi
done
exit "$failed"
