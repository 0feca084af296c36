#!/usr/bin/env bash
# Links the extension module like `cc`, with zig (from PyPI: ziglang), against the GLIBC of GLIBC_VERSION, whatever this
# machine has. The result runs on every Linux with that version or a newer one.
set -euo pipefail
script=$(mktemp)
trap 'rm -f "$script"' EXIT
echo '{ global: PyInit_*; fb_*; local: *; };' >"$script"
args=()
for arg in "$@"; do
    case $arg in
    # not zig's own unwinder, which cannot end threads of Python: glibc ends them with that of gcc
    -lgcc_s) args+=("$(cc -print-file-name=libgcc_s.so.1)") ;;
    -lgcc_eh) ;;
    # zig brings its own linker
    -fuse-ld=* | -B*gcc-ld* | -Wl,--no-undefined-version) ;;
    # rustc exports all C functions in crates, and zig's linker cannot exclude functions of libraries
    -Wl,--version-script=*) args+=("-Wl,--version-script=$script") ;;
    -Wl,--exclude-libs,*) ;;
    *) args+=("$arg") ;;
    esac
done
"${ZIG_PYTHON:-python3}" -m ziglang cc -target "$(uname -m)-linux-gnu.${GLIBC_VERSION:-2.28}" "${args[@]}"
