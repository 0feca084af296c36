#!/usr/bin/env bash
# Compiles the unchanged example and test programs of HEPnOS against our headers, with its own CMake files, and runs
# each on every available kind of store.
#
#   scripts/hepnos_programs.sh CHECKOUT [DIRECTORY]
#
# CHECKOUT is a checkout of https://github.com/hepnos/HEPnOS; DIRECTORY (by default temporary) is for the build. STORES
# selects the stores ("memory dir redis"), JOBS the number of compilers. Needed, on Debian: cmake, libcppunit-dev,
# libspdlog-dev, libboost-serialization-dev, libopenmpi-dev, openmpi-bin; redis-server for redis.
set -euo pipefail
checkout=$(realpath "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ $# -gt 1 ]; then
    mkdir -p "$2"
    work=$(realpath "$2")
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
stores=${STORES:-memory dir redis}
mpirun=(mpirun --oversubscribe --allow-run-as-root)
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers do not allow it, which causes warnings

# Two tests use the clock and the locks of thallium, the transport of HEPnOS: these lines replace it.
stand_in() {
    mkdir -p "$work/stand-in"
    cat >"$work/stand-in/thallium.hpp" <<'END'
#pragma once
#include <hepnos/Statistics.hpp>
#include <mutex>
#include <thread>
namespace thallium {
struct timer { static double wtime() { return hepnos::wtime(); } };
using mutex = std::mutex;
struct thread { static void yield() { std::this_thread::yield(); } };
struct xstream { static xstream self() { return {}; } int get_rank() const { return 0; } };
}
END
}

compile() {
    mkdir -p "$work/source"
    cat >"$work/source/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(hepnos_programs CXX)
enable_testing()
find_package(hepnos REQUIRED)
set(CPPUNIT_LIBRARIES cppunit)
include_directories("$work/stand-in")
add_subdirectory("$checkout/examples" examples)
add_subdirectory("$checkout/test" test)
# The CMake files of HEPnOS leave this one out.
add_executable(RestartAndReadTest "$checkout/test/RestartAndReadTest.cpp")
target_link_libraries(RestartAndReadTest HEPnOSTest)
END
    CMAKE_PREFIX_PATH="$work/prefix" cmake -S "$work/source" -B "$work/build" >"$work/cmake.log"
    # a program that does not compile is reported when it should run
    cmake --build "$work/build" --parallel "${JOBS:-2}" -- --keep-going >"$work/build.log" 2>&1 ||
        grep -E ': (fatal )?error|undefined reference|\*\*\*' "$work/build.log" | head -n 40
}

n_passed=0
failed=()
# try STORE NAME COMMAND...
try() {
    local store=$1 name=$2
    shift 2
    if timeout 300 "$@" >"$work/$store-$name.log" 2>&1; then
        n_passed=$((n_passed + 1))
        echo "ok     $store $name"
    else
        failed+=("$store/$name")
        echo "FAILED $store $name"
        tail -n 15 "$work/$store-$name.log"
    fi
}

# Each program gets its own store.
url=
server=
open_store() {
    case $1 in
    memory) url=memory: ;;
    dir) url=dir:$(mktemp -d "$work/store-XXXXXX") ;;
    redis)
        local port=$((20000 + RANDOM % 20000))
        redis-server --port $port --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" &
        server=$!
        for _ in $(seq 100); do
            (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && break
            sleep 0.05
        done
        url=redis://127.0.0.1:$port
        ;;
    esac
}
close_store() {
    if [ -n "$server" ]; then
        kill "$server"
        wait "$server" || true
        server=
    fi
}

has_store() {
    case $1 in
    memory | dir) return 0 ;;
    redis) command -v redis-server >/dev/null || return 1 ;;
    esac
    open_store "$1"
    local said
    said=$("$work/build/examples/01_init_shutdown/01_init_shutdown" tcp "$url" 2>&1) || true
    close_store
    [[ $said != *'is no event store'* ]]
}

run_on() {
    local store=$1 program name
    for program in "$work"/build/examples/*/[0-9]*; do
        [ -x "$program" ] && [ -f "$program" ] || continue
        name=$(basename "$program")
        open_store "$store"
        try "$store" "$name" "$program" na+sm "$url"
        close_store
    done
    for name in DataStore DataSet RunSet EventSet Run SubRun Event LoadStore LoadStoreVectors Ptr WriteBatch AsyncWriteBatch; do
        open_store "$store"
        try "$store" ${name}Test "$work/build/test/${name}Test" "$url" "$work/$name.xml"
        close_store
    done
    open_store "$store"
    # a store in memory ends with its process, and a store in a directory allows only one writing process
    local n=1
    [ "$store" = redis ] && n=2
    try "$store" "ParallelMPITest, $n ranks" "${mpirun[@]}" -n $n "$work/build/test/ParallelMPITest" "$url" "$work/p.xml"
    close_store
    [ "$store" = memory ] && return
    open_store "$store"
    # the first two ranks push, and the others pop
    try "$store" "QueueTest, 4 ranks" "${mpirun[@]}" -n 4 "$work/build/test/QueueTest" "$url" "$work/q.xml"
    close_store
    open_store "$store"
    try "$store" WriteAndRestartTest "$work/build/test/WriteAndRestartTest" "$url" "$work/w.xml"
    try "$store" RestartAndReadTest "$work/build/RestartAndReadTest" "$url" "$work/r.xml"
    close_store
}

"$root/scripts/install_cpp.sh" "$work/prefix"
stand_in
compile
for store in $stores; do
    if has_store "$store"; then
        run_on "$store"
    else
        echo "skipped: $store is not available"
    fi
done
echo "$n_passed passed, ${#failed[@]} failed ${failed[*]:-}"
[ ${#failed[@]} = 0 ]
