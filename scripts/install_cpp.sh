#!/usr/bin/env bash
# Installs the library, the headers, and the files for pkg-config and CMake for C and C++ programs.
#
#   scripts/install_cpp.sh PREFIX
#
# The library is built if it does not exist or is older than the sources. The variables of CMake's GNUInstallDirs,
# CMAKE_INSTALL_LIBDIR (lib), CMAKE_INSTALL_INCLUDEDIR (include) and CMAKE_INSTALL_DATADIR (share), name directories in
# PREFIX. With DESTDIR, files are installed below that directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${DESTDIR:-}${1:?"usage: scripts/install_cpp.sh PREFIX"}
lib=${CMAKE_INSTALL_LIBDIR:-lib}
include=${CMAKE_INSTALL_INCLUDEDIR:-include}
share=${CMAKE_INSTALL_DATADIR:-share}
target=${CARGO_TARGET_DIR:-target}
# The version of HEPnOS with the same interface as the headers.
hepnos_version=0.7.2

# With fb, so that dependencies have the same features as in tests, and are not compiled again.
cargo build --release --locked --quiet -p femtobarn-capi -p femtobarn-cli
mkdir -p "$prefix/$lib/pkgconfig" "$prefix/$share/cmake"/{femtobarn,hepnos} "$prefix/$include"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
# The SONAME, as in crates/capi/build.rs. Do not overwrite an existing library with `cp`, as running programs may have
# mapped it.
soname=libfemtobarn_c.so.$(cut -d. -f1,2 <<<"$version")
rm -f "$prefix/$lib/libfemtobarn_c.so"
install -m 644 "$target/release/libfemtobarn_c.so" "$prefix/$lib/$soname"
ln -s "$soname" "$prefix/$lib/libfemtobarn_c.so"
rm -rf "$prefix/$include"/{femtobarn,hepnos}
cp -r include/. "$prefix/$include/"

# up DIRECTORY: the way from a directory in PREFIX to PREFIX
up() { sed 's|[^/][^/]*|..|g' <<<"$1"; }
mpi=$(for name in ompi-cxx ompi mpich; do pkg-config --exists "$name" 2>/dev/null && echo "$name" && break; done || true)
fmt=$(pkg-config --exists fmt 2>/dev/null && echo ' -lfmt' || true)
for name in femtobarn hepnos; do
    sed -e "s|@VERSION@|$version|; s|@HEPNOS_VERSION@|$hepnos_version|; s|@MPI@|$mpi|; s|@FMT@|$fmt|" \
        -e "s|@LIBDIR@|$lib|; s|@INCLUDEDIR@|$include|; s|@TO_PREFIX@|$(up "$lib/pkgconfig")|" \
        "cmake/$name.pc.in" >"$prefix/$lib/pkgconfig/$name.pc"
    sed -e "s|@SONAME@|$soname|; s|@LIBDIR@|$lib|; s|@INCLUDEDIR@|$include|" \
        -e "s|@TO_PREFIX@|$(up "$share/cmake/$name")|" \
        "cmake/$name-config.cmake" >"$prefix/$share/cmake/$name/$name-config.cmake"
done
# config_version NAME VERSION: the version file for find_package, which accepts this version and earlier ones
config_version() {
    cat >"$prefix/$share/cmake/$1/$1-config-version.cmake" <<END
set(PACKAGE_VERSION $2)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
END
}
config_version femtobarn "${version%%-*}"
config_version hepnos "$hepnos_version"
