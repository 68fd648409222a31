#!/usr/bin/env bash
# What a newcomer does, on a bare Debian 12: builds, starts the server, and runs every check.
#
#     tests/bare.sh [DIR]         in DIR, which is emptied first (target/bare)
#
# Makes a Debian 12 with next to nothing in it, lends it this machine's Rust toolchain, copies the last commit
# into it, and there installs what the README asks for, builds, asks the server for a PONG, and runs
# tests/all.sh, which builds its tools too: half an hour on two cores. Prints each of them with its time. At the
# end nothing may be left running; if all went well, DIR is removed.
#
# Needs root and debootstrap. Packages come from where this machine gets its own: apt's mirror (or MIRROR, where
# apt has none of Debian 12), and what the environment and the configuration files of apt, pip, npm and cargo
# say. Everything runs in name spaces of its own for mounts and processes, so that whatever ends this script
# ends and unmounts all of it.
set -euo pipefail
exec </dev/null
[ $# = 0 ] || set -- "${@:1:$#-1}" "$(realpath -m -- "${@: -1}")"
cd "$(dirname "$0")/.."

SUITE=bookworm
# What the README asks for, and the certificates without which Rust itself cannot be fetched.
PACKAGES=(ca-certificates gcc make libc6-dev)
# Variables that tell programs where to get packages and whom to trust.
PASSED='^(PIP_|NPM_CONFIG_|npm_config_|CARGO_(HTTP|NET|REGISTR|SOURCE)|SSL_CERT_|(CURL|REQUESTS)_CA_|NODE_EXTRA_CA_|([a-z]+_proxy|[A-Z]+_PROXY)$)'
# Files that do; they are lent, not copied, as there may be secrets in them.
LENT=(/etc/pip.conf /etc/npmrc ~/.npmrc ~/.pip/pip.conf ~/.config/pip/pip.conf
    "${CARGO_HOME:-$HOME/.cargo}/config.toml" "${CARGO_HOME:-$HOME/.cargo}/credentials.toml")
INSIDE_HOME=/root
INSIDE_RUST=/opt/rust

# A line for each step, with its time; its output is in DIR.log, and its end is shown if it fails.
step() {
    local name=$1 began=$SECONDS
    shift
    printf '%-22s' "$name"
    if "$@" >>"$log" 2>&1; then
        printf '%5d s  ok\n' $((SECONDS - began))
    else
        printf '%5d s  FAILED\n' $((SECONDS - began))
        tail -n 40 "$log" | sed 's/^/    /'
        echo "(all of it: $log)"
        exit 1
    fi
}

mirror() {
    apt-get indextargets --format '$(REPO_URI)' "Codename: $SUITE" 'Component: main' 'Created-By: Packages' |
        head -n 1
}

make_debian() {
    local from=${MIRROR:-$(mirror)}
    [ -n "$from" ] || { echo "apt has no mirror of $SUITE: name one in MIRROR"; return 1; }
    debootstrap --variant=minbase "$SUITE" "$root" "$from"
}

# Where to get packages from, as on this machine.
lend() {
    local file name value inside
    apt-config dump --format '%F "%v";%n' Acquire >"$root/etc/apt/apt.conf.d/90host"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    mkdir -p "$root$INSIDE_RUST"
    mount --bind -o ro "$(rustc --print sysroot)" "$root$INSIDE_RUST"
    for file in "${LENT[@]}"; do
        [ -f "$file" ] || continue
        inside=$file
        case $file in
            "${CARGO_HOME:-$HOME/.cargo}"/*) inside=$INSIDE_HOME/.cargo/${file##*/} ;;
            "$HOME"/*) inside=$INSIDE_HOME/${file#"$HOME"/} ;;
        esac
        mkdir -p "$root$(dirname "$inside")"
        touch "$root$inside"
        mount --bind -o ro "$file" "$root$inside"
    done
    variables=()
    while IFS='=' read -r name value; do
        [[ $name =~ $PASSED ]] || continue
        variables+=("$name=$value")
        # Certificates, or a folder of packages.
        if [[ $value = /* && -e $value && ! -d $root$value ]]; then
            mkdir -p "$root$(dirname "$value")"
            cp -rL "$value" "$root$value"
        fi
    done < <(env)
}

inside() {
    chroot "$root" /usr/bin/env -i "${variables[@]}" HOME=$INSIDE_HOME TERM=dumb LANG=C.UTF-8 \
        PATH=$INSIDE_RUST/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/bash -c "cd /root/mayfly || exit
        $1"
}

install_packages() {
    inside "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        ${PACKAGES[*]}" || return 1
    # Whoever this machine trusts: its way out may have a certificate of its own.
    if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    fi
}

# Starts the server on a free port, asks it, and has it save and stop. There is no redis-cli yet.
ask_server() {
    inside '
        set -e
        port=6379
        while (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do port=$((port + 1)); done
        target/release/mayfly --port $port &
        server=$!
        until exec 3<>/dev/tcp/127.0.0.1/$port; do kill -0 $server; sleep 0.05; done 2>/dev/null
        printf "SET otp:alice 493817 EX 120\r\nPING\r\n" >&3
        read -r -t 30 set <&3
        read -r -t 30 ping <&3
        echo "$set $ping"
        [ "$set $ping" = "$(printf "+OK\r +PONG\r")" ]
        kill -TERM $server
        wait $server
        test -s dump.mayfly
        rm dump.mayfly'
}

# The checks' own lines are the output here. Afterwards redis-cli is there: the server once more, by it.
all_checks() {
    local rc=0
    inside 'tests/all.sh' 2>&1 | tee -a "$log" | sed -u 's/^/    /' || rc=$?
    if [ $rc != 0 ]; then
        keep=target/bare-checks
        rm -rf "$keep"
        cp -r "$root/root/mayfly/target/checks" "$keep" && echo "(their logs: $keep)"
    fi
    return $rc
}

# Nothing that ran in there runs on, and so nothing listens.
nothing_runs() {
    local link left=0
    for link in /proc/[0-9]*/root; do
        [ "$(readlink "$link")" = "$root" ] || continue
        tr '\0' ' ' <"${link%/root}/cmdline"
        echo "still runs"
        left=1
    done
    return $left
}

main() {
    began=$SECONDS
    mkdir -p "$root/root/mayfly"
    step "Debian $SUITE" make_debian
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t sysfs -o ro sysfs "$root/sys" || mount --rbind /sys "$root/sys"
    lend
    git archive HEAD | tar -x -C "$root/root/mayfly"
    step "apt-get install" install_packages
    step "cargo build --release" inside 'cargo build --release'
    step "start, PING, stop" ask_server
    echo "tests/all.sh"
    all_checks || { echo "failed: tests/all.sh"; exit 1; }
    step "redis-cli PING" inside '
        target/release/mayfly --port 0 --unixsocket /tmp/mayfly.sock --save "" &
        server=$!
        until redis-cli -s /tmp/mayfly.sock PING; do kill -0 $server || exit 1; sleep 0.05; done
        kill $server && wait $server'
    step "nothing is left running" nothing_runs
    echo "all went well on a bare Debian, in $((SECONDS - began)) s"
}

if [ "${1:-}" != --inside ]; then
    for tool in debootstrap unshare git rustc; do
        command -v $tool >/dev/null || { echo "tests/bare.sh needs $tool" >&2; exit 2; }
    done
    [ "$(id -u)" = 0 ] || { echo "tests/bare.sh needs root, for debootstrap and chroot" >&2; exit 2; }
    dir=${1:-$PWD/target/bare}
    if [ -n "$(ls -A "$dir" 2>/dev/null)" ] && [ ! -d "$dir/root/mayfly" ]; then
        echo "$dir is not empty, and no earlier run made it" >&2
        exit 2
    fi
    rm -rf --one-file-system "$dir"
    mkdir -p "$dir"
    : >"$dir.log"
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc tests/bare.sh --inside "$dir"
    rm -rf --one-file-system "$dir"
    exit
fi
root=$2
log=$root.log
variables=()
main
