#!/usr/bin/env bash
# Links the extension module as `cc` does, by zig (from PyPI: ziglang), against the GLIBC of GLIBC_VERSION, whatever this
# machine has: what is linked so runs on every Linux with that version or a newer one.
set -euo pipefail
script=$(mktemp)
trap 'rm -f "$script"' EXIT
echo '{ global: PyInit_*; local: *; };' >"$script"
args=()
for arg in "$@"; do
    case $arg in
    # zig brings its own unwinder and linker
    -lgcc_s | -lgcc_eh) args+=(-lunwind) ;;
    -fuse-ld=* | -B*gcc-ld* | -Wl,--no-undefined-version) ;;
    # rustc names all functions of C in crates, and zig's linker cannot leave those of libraries out
    -Wl,--version-script=*) args+=("-Wl,--version-script=$script") ;;
    -Wl,--exclude-libs,*) ;;
    *) args+=("$arg") ;;
    esac
done
"${ZIG_PYTHON:-python3}" -m ziglang cc -target "$(uname -m)-linux-gnu.${GLIBC_VERSION:-2.28}" "${args[@]}"
