#!/usr/bin/env bash
# Each fuzz target for FUZZ_SECONDS (10), two at a time; a crash fails. Prints how many runs each made.
#
# Built with the compiler that builds everything else: RUSTC_BOOTSTRAP=1 lets it take the options of the
# address sanitizer, which otherwise a nightly alone takes.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1
seconds=${FUZZ_SECONDS:-10}
host=$(rustc -vV | sed -n 's/^host: //p')
if [ ! -e "$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc-stable_rt.asan.a" ] &&
    [ ! -e "$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc-nightly_rt.asan.a" ]; then
    echo "this Rust toolchain has no address sanitizer for $host, which the fuzz targets are built with;" >&2
    echo "rustup's toolchains for Linux on x86_64 and aarch64 have it" >&2
    exit 1
fi
# The target `model` saves snapshots, which are synced: to memory where there is some to write to.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
work=$(mktemp -d)
export TMPDIR=$work
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# Bytes of an input. One of `model` and `entry` takes about a millisecond so; at 4,096 it took up to 30, which
# left a short run some hundred tries.
declare -A length_max=([request]=4096 [session]=4096 [snapshot]=4096 [model]=64 [entry]=160 [script]=512
    [codecs]=512 [http]=1024)

# What a run costs beside what it looks for, measured over some seconds each: without the instrumentation of
# comparisons all targets find as much or more, at 1.1 to 1.8 times the runs; without the weighing of rare
# features (entropic) `model` makes twice the runs. A look for leaks after each input that allocated takes more
# time than the input, and so does the stack of each allocation; nothing unsafe here points into a stack.
export ASAN_OPTIONS=malloc_context_size=1:detect_stack_use_after_return=0
run() {
    cargo fuzz run --no-trace-compares "$1" "$work/$1" -- -detect_leaks=0 -rss_limit_mb=2048 "${@:2}"
}

# First the seeds at their full length, then what can be made of them.
smoke() {
    run "$1" -runs=0 && run "$1" -max_total_time="$seconds" -max_len="${length_max[$1]}" -entropic=0 \
        -dict=fuzz/mayfly.dict -print_final_stats=1
}

cargo fuzz build --no-trace-compares
targets=(request session model snapshot entry script codecs http)
for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
    cp -r "fuzz/corpus/$target" "$work/$target"
    { smoke "$target" >"$work/$target.log" 2>&1 && touch "$work/$target.passed"; } &
done
wait
failed=0
for target in "${targets[@]}"; do
    if [ -e "$work/$target.passed" ]; then
        runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$work/$target.log")
        printf '%-10s%s runs in %s s\n' "$target" "$runs" "$seconds"
    else
        failed=1
        printf '%s failed:\n' "$target"
        tail -n 60 "$work/$target.log"
    fi
done
exit "$failed"
