#!/usr/bin/env bash
# Everything that must pass: installs what is missing, then style, lints, licences, tests, fuzz
# smoke, and a short bench beside the peers. No argument, no standard input; stops what it starts.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
export CARGO_TERM_COLOR=never
step() { printf '\n== %s\n' "$*"; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
need_packages() {
    local missing=()
    command -v redis-server >/dev/null || missing+=(redis-server)
    command -v redis-cli >/dev/null || missing+=(redis-tools)
    command -v python3 >/dev/null || missing+=(python3)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    command -v cc >/dev/null || missing+=(build-essential)
    ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || missing+=(libjemalloc2)
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
    if [ ${#missing[@]} -gt 0 ]; then
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
    fi
}

step "tools"
need_packages
node_major=$(node -p 'parseInt(process.versions.node)')
if [ "$node_major" -lt 20 ]; then
    echo "node $(node --version) at $(command -v node) is too old: node-redis needs 20 or newer" >&2
    exit 1
fi
command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
.venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt

step "format"
cargo fmt --check
step "lints"
cargo clippy --all-targets -- -D warnings
step "licences and sources"
cargo deny check bans licenses sources
step "build"
cargo build --release
step "tests"
cargo nextest run --no-fail-fast
step "fuzz smoke"
bash fuzz/smoke.sh
step "reply for reply beside redis-server"
.venv/bin/python tests/differential.py --protocol 2 --seed 102
.venv/bin/python tests/differential.py --protocol 3 --seed 103
step "deadlines of hash fields, reply for reply beside Redis 8.2"
.venv/bin/python tests/differential.py --family fields --protocol 2 --seed 104
.venv/bin/python tests/differential.py --family fields --protocol 3 --seed 105
step "client libraries"
.venv/bin/python tests/clients/python_clients.py
(cd tests/clients/node && npm ci --no-audit --no-fund --loglevel=error)
node tests/clients/node/node_clients.js
step "beside the peers, in short"
.venv/bin/python benches/peers.py --venv .venv --short
