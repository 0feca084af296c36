#!/usr/bin/env bash
# Compiles and runs the C and C++ tests and examples, as users compile their programs: against an installation, with the
# flags from pkg-config, and one of them with CMake. Uses stores in memory and in directories, and mpirun.
#
#   scripts/test_cpp.sh [DIRECTORY]
#
# DIRECTORY (by default temporary) is for the build. JOBS is the number of compilers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    work=$(realpath "$1")
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers do not allow it, which causes warnings
mkdir -p "$work/bin"

# compile SOURCE: warnings are errors in our headers, but not in the headers of MPI
compile() {
    local source=$1 name package=femtobarn compiler=(c++ -std=c++17)
    name=$(basename "${source%.*}")
    case $source in
    *.c) compiler=(cc -std=c11) ;;
    *hepnos*) package=hepnos ;;
    esac
    local flags
    flags=$(pkg-config --cflags --libs "$package" | sed 's|-I/usr/|-isystem /usr/|g')
    # shellcheck disable=SC2086 # several words
    "${compiler[@]}" -O1 -Wall -Wextra -Wshadow -Werror "$source" $flags -o "$work/bin/$name"
}

compile_all() {
    local running=0 pids=() pid
    for source in tests/cpp/*.cpp examples/cpp/*.cpp examples/c/*.c; do
        compile "$source" &
        pids+=($!)
        running=$((running + 1))
        if [ "$running" -ge "${JOBS:-2}" ]; then
            wait "${pids[0]}"
            pids=("${pids[@]:1}")
            running=$((running - 1))
        fi
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

# Programs include headers in any order, and frameworks enable more warnings than we do.
each_header_by_itself() {
    local flags warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast'
    flags=$(pkg-config --cflags hepnos | sed 's|-I/usr/|-isystem /usr/|g')
    (cd "$work/prefix/include" && find . -name '*.h*' ! -name rdf.hxx) |
        xargs -P "${JOBS:-2}" -I{} sh -c "echo '#include <{}>' | c++ -std=c++17 $warnings -Werror $flags -fsyntax-only -x c++ -"
    echo 'each header compiles by itself'
    local root
    root=$("${PYTHON:-.venv/bin/python}" -c \
        'import importlib.util as u, pathlib as p; print(p.Path(u.find_spec("ROOT").origin).parent / "include")' 2>/dev/null ||
        root-config --incdir 2>/dev/null || true)
    if [ ! -d "$root" ]; then
        [ "${FEMTOBARN_REQUIRE_ALL:-}" != 1 ] || { echo 'ROOT is not installed (FEMTOBARN_REQUIRE_ALL=1)' && exit 1; }
        echo 'rdf.hxx: skipped, ROOT is not installed'
        return
    fi
    # shellcheck disable=SC2086 # several words
    echo '#include <femtobarn/rdf.hxx>' | c++ -std=c++17 $warnings -Werror $flags -isystem "$root" -fsyntax-only -x c++ -
    echo 'rdf.hxx compiles by itself'
}

# refused MESSAGE CODE: a program that would write wrong values must not compile, and the compiler must say why
refused() {
    local flags output
    flags=$(pkg-config --cflags femtobarn)
    # shellcheck disable=SC2086 # several words
    if output=$(c++ -std=c++17 $flags -fsyntax-only -x c++ - 2>&1 <<<"#include <femtobarn.hpp>
struct Base { float pt; }; struct Event : Base { long double mass; int run; std::array<int, 0> none; };
$2"); then
        echo "this compiles: $2" && exit 1
    fi
    grep -qF "$1" <<<"$output" || { echo "$2 is refused for another reason: $output" && exit 1; }
}

wrong_members_are_refused() {
    refused 'name the struct that is filled' 'fb::Member pt = fb::member("pt", &Event::pt);'
    refused 'name the struct that is filled' 'fb::Member run = fb::member("run", &Event::run);'
    refused 'use double' 'fb::Member mass = fb::member<Event>("mass", &Event::mass);'
    refused 'use double' 'auto mass = [](const fb::Batch &batch) { return batch.values<long double>("mass"); };'
    refused 'at least one item' 'fb::Member none = fb::member<Event>("none", &Event::none);'
    echo 'wrong members do not compile'
}

# Frameworks load it with libraries that link the same crates: it must export only the C ABI, and have a SONAME.
exports_and_soname() {
    local library=$work/prefix/lib/libfemtobarn_c.so foreign soname
    foreign=$(comm -23 <(nm -D --defined-only "$library" | awk '{ print $3 }' | sort -u) \
        <(grep -oE '\bfb_[a-z0-9_]+\(' include/femtobarn.h | tr -d '(' | sort -u))
    [ -z "$foreign" ] || { echo "symbols that are not in femtobarn.h: $foreign" && exit 1; }
    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ -n "$soname" ] && [ "$(readlink "$library")" = "$soname" ] || { echo "its SONAME is '$soname'" && exit 1; }
    readelf -d "$work/bin/store" | grep -q "(NEEDED).*\[$soname\]"
    echo "exports the C ABI alone, as $soname"
}

# Another library in the process has functions with the same names as our crates: each must call its own.
beside_another() {
    cat >"$work/other.c" <<'END'
#include <stdlib.h>
unsigned long crc_fast_checksum(void) { abort(); }
void *ZSTD_createCCtx(void) { abort(); }
int mdb_env_create(void) { abort(); }
END
    cc -shared -fPIC "$work/other.c" -o "$work/libother.so"
    echo '--- beside a library with the same symbols'
    LD_PRELOAD=$work/libother.so "$work/bin/01_store_and_load" "$(folder)"
}

# Examples that write ntuples, with what they read back.
ntuple_examples() {
    local memcheck=(valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite
        --errors-for-leak-kinds=definite) output
    output=$("${memcheck[@]}" "$work/bin/02_write_and_read" "$work/written_in_c.root")
    [ "$output" = 'run 1 begins with entry 0, run 2 with entry 1000 of 2000
2000 events, sums of pt: 249583.5 and 249583.5' ] || { echo "02_write_and_read printed: $output" && exit 1; }
    output=$("$work/bin/04_write" "$work/written_in_cpp.root")
    [ "$output" = '2000 events, sum of pt in run 2: 519147.0' ] || { echo "04_write printed: $output" && exit 1; }
    echo 'examples in C and C++ write ntuples and read them back'
}

# Each program gets its own store.
run() {
    local name=$1
    shift
    echo "--- $name $*"
    "$work/bin/$name" "$@"
}
folder() { printf 'dir:%s' "$(mktemp -d "$work/store-XXXXXX")"; }
ranks() {
    local n=$1 name=$2
    shift 2
    echo "--- $name, $n ranks: $*"
    timeout 120 mpirun --oversubscribe --allow-run-as-root -n "$n" "$work/bin/$name" "$@"
}

by_cmake() {
    mkdir -p "$work/source"
    cat >"$work/source/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(program C CXX)
find_package(hepnos 0.7 REQUIRED)
find_package(femtobarn 0.1 REQUIRED)
find_package(femtobarn 99 QUIET)
if(femtobarn_FOUND)
    message(FATAL_ERROR "version 99 of femtobarn is found")
endif()
add_executable(program "$PWD/examples/cpp/02_hepnos_program.cpp")
target_link_libraries(program hepnos)
add_executable(own "$PWD/examples/c/01_store_and_load.c")
target_link_libraries(own femtobarn::femtobarn)
END
    CMAKE_PREFIX_PATH=$work/prefix cmake -S "$work/source" -B "$work/build" >"$work/cmake.log"
    cmake --build "$work/build" >>"$work/cmake.log"
    echo '--- by CMake'
    "$work/build/own"
    "$work/build/program"
}

# References that Python stores and C++ follows, and the reverse, with the note of either language.
with_python() {
    local python=${PYTHON:-.venv/bin/python} both
    if ! "$python" -c 'import femtobarn._core' 2>/dev/null; then
        [ "${FEMTOBARN_REQUIRE_ALL:-}" != 1 ] || { echo "$python has no femtobarn (FEMTOBARN_REQUIRE_ALL=1)" && exit 1; }
        echo "--- references with Python: skipped, $python has no femtobarn"
        return
    fi
    both=$(folder)
    "$python" tests/cpp/references.py "$both" store
    run references "$both" follow
    run references "$both" store
    "$python" tests/cpp/references.py "$both" follow
    both=$(folder)
    run references "$both" store
    "$python" tests/cpp/references.py "$both" store
    run references "$both" follow
    "$python" tests/cpp/references.py "$both" follow
}

# If the server of a batch is gone when the batch is destroyed, the exit code is 1, unless a later call has thrown.
lost_batches() {
    local port=$((20000 + RANDOM % 20000)) kind wanted code
    if ! command -v redis-server >/dev/null; then
        [ "${FEMTOBARN_REQUIRE_ALL:-}" != 1 ] || { echo 'redis-server is not installed (FEMTOBARN_REQUIRE_ALL=1)' && exit 1; }
        echo '--- lost batches: skipped, redis-server is not installed'
        return
    fi
    for kind in batch async own told; do
        redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" --daemonize yes \
            --pidfile "$work/redis.pid" >/dev/null
        until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done
        wanted=1
        [ "$kind" != told ] || wanted=0
        code=0
        timeout 60 "$work/bin/lost_batches" "redis://127.0.0.1:$port/?failover=1" "kill -9 $(cat "$work/redis.pid")" \
            "$kind" || code=$?
        [ "$code" = "$wanted" ] || { echo "lost_batches $kind ended with $code" && exit 1; }
        port=$((port + 1))
    done
    echo 'lost batches are reported'
}

# The interface of ntuples moves memory between C++ and the library, so its tests run with sanitizers and valgrind, too.
checked() {
    local flags name kind
    flags=$(pkg-config --cflags --libs femtobarn)
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1 # it does not know the locks of Rust
    for name in ntuple ntuple_writer; do
        for kind in address,undefined thread; do
            # shellcheck disable=SC2086 # several words
            c++ -std=c++17 -O1 -g -fsanitize=$kind -fno-sanitize-recover=all "tests/cpp/$name.cpp" $flags \
                -o "$work/bin/$name-$kind"
        done
    done
    for kind in address,undefined thread; do
        run ntuple-$kind testdata
        run ntuple_writer-$kind "$(mktemp -d "$work/written-XXXXXX")"
    done
    local memcheck=(valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite
        --errors-for-leak-kinds=definite)
    echo '--- under valgrind'
    "${memcheck[@]}" "$work/bin/ntuple" testdata
    "${memcheck[@]}" "$work/bin/ntuple_writer" "$(mktemp -d "$work/written-XXXXXX")"
}

scripts/install_cpp.sh "$work/prefix"
each_header_by_itself
wrong_members_are_refused
compile_all
exports_and_soname
beside_another
run type_names
run ntuple testdata
run ntuple_writer "$(mktemp -d "$work/written-XXXXXX")"
run 03_columns testdata/dimuon.root:Events
ntuple_examples
checked
for name in store references hepnos_containers hepnos_products hepnos_processor; do
    run "$name" memory:
    run "$name" "$(folder)"
done
run hepnos_processor memory: single
ranks 2 hepnos_processor "$(folder)"
ranks 3 hepnos_processor "$(folder)" single
run 01_store_and_load "$(folder)"
run 01_events_and_products "$(folder)"
ranks 2 02_hepnos_program na+sm "$(folder)"
FEMTOBARN_STORE=$(folder) run 02_hepnos_program na+sm /no/such/file
lost_batches
with_python
by_cmake
echo 'C and C++: all passed'
