#!/usr/bin/env bash
# Creates the virtual environment, after checking that all tools exist. As root on Debian it installs
# missing tools; otherwise it prints the command that does.
#
#   scripts/setup.sh PYTHON VENV
set -euo pipefail
python=$1
venv=$2
oldest_rust=1.95

say() { printf 'set-up: %s\n' "$*" >&2; }

apt_install() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $*"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    else
        say "missing: $*. On Debian or Ubuntu: sudo apt-get install $*"
        exit 1
    fi
}

# The codecs are compiled from C; ROOT's interpreter, an oracle of the tests, needs C++ headers.
if ! command -v cc >/dev/null || ! command -v c++ >/dev/null; then
    apt_install gcc g++ libc6-dev
fi
# Merging is tested on file systems that share blocks, in images that the tests create and mount, if they can.
if [ "$(id -u)" = 0 ] && ! { command -v mkfs.xfs && command -v mkfs.btrfs && command -v mkfs.ext4; } >/dev/null; then
    apt_install xfsprogs btrfs-progs e2fsprogs
fi
# Refusals of these file systems are simulated by tracing.
if [ "$(id -u)" = 0 ] && ! command -v strace >/dev/null; then
    apt_install strace
fi

# Remote files are tested on real servers.
if [ "$(id -u)" = 0 ] && ! { command -v xrootd && command -v cmsd && command -v xrdcp && command -v openssl; } >/dev/null; then
    apt_install xrootd-server xrootd-server-plugins xrootd-client openssl
fi
if [ "$(id -u)" = 0 ] && ! { command -v nginx && [ -e /usr/lib/nginx/modules/ngx_http_dav_ext_module.so ]; } >/dev/null; then
    apt_install nginx-light libnginx-mod-http-dav-ext
fi
# The page of fb view is tested in a real browser.
if [ "$(id -u)" = 0 ] && ! command -v chromium >/dev/null; then
    apt_install chromium
fi
# The event store is tested on a real Redis, which must not run as a service.
if [ "$(id -u)" = 0 ] && ! command -v redis-server >/dev/null; then
    apt_install redis-server
    if command -v systemctl >/dev/null; then systemctl disable --now redis-server >/dev/null 2>&1 || true; fi
fi

# C++ programs use Boost for serialization and run under MPI; their statistics are printed with fmt (of spdlog).
if [ "$(id -u)" = 0 ] && ! { command -v mpirun && command -v cmake && command -v pkg-config &&
    [ -e /usr/include/boost/archive/binary_oarchive.hpp ] && [ -e /usr/include/spdlog/fmt/fmt.h ]; } >/dev/null; then
    apt_install cmake pkg-config libboost-serialization-dev libopenmpi-dev openmpi-bin libspdlog-dev
fi
if [ "$(id -u)" = 0 ] && ! command -v valgrind >/dev/null; then
    apt_install valgrind libc6-dbg
fi
if ! command -v rustc >/dev/null || ! command -v cargo >/dev/null; then
    say "missing: cargo and rustc, at least $oldest_rust (https://rustup.rs)"
    exit 1
fi
rust=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$oldest_rust" "$rust" | sort -V | head -n1)" != "$oldest_rust" ]; then
    say "rustc is $rust, and at least $oldest_rust is needed: rustup update stable"
    exit 1
fi

if ! command -v "$python" >/dev/null; then
    apt_install python3
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$python is $("$python" --version), and at least 3.11 is needed: make PYTHON=/path/to/python3.11"
    exit 1
fi
# Debian ships venv without ensurepip, in a package of its own.
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    apt_install python3-venv
fi
"$python" -m venv "$venv"
