#!/bin/sh
# test: label=quick timeout=60
# The folder of bench/bundle.sh runs the program, and says in one line what it could not carry: a driver that is new
# enough, and the C library.
. "$(dirname "$0")/../script.sh"
build=$(dirname "$PENSTOCK")
[ -e "$build/libpenstock-cuda.so" ] || skip "the CUDA module is not built"
command -v readelf >/dev/null 2>&1 || skip "no readelf here (apt-get install binutils)"
case $build in
"$SOURCE_DIR"/build/*) ;;
*) skip "bundle.sh takes what lies below build/ of the sources" ;;
esac

PRESET=${build##*/} sh "$SOURCE_DIR/bench/bundle.sh" there >out 2>&1 || fail "bundle.sh: $(cat out)"
grep -qx '2[.][0-9]*' there/needs-glibc || fail "needs-glibc: $(cat there/needs-glibc)"

# said WANT LINE_OF_THE_DRIVER: what `run` says of it
said() {
    printf '%s\n' "$2" >driver
    PENSTOCK_DRIVER_FILE=$PWD/driver there/run true >out 2>err || fail "run: $(cat err)"
    [ "$(cat err)" = "$1" ] || fail "of '$2': $(cat err)"
}
said '' 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build'
said '' 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  610.3  Thu Oct 19 18:56:32 UTC 2026'
said 'run: missing here: NVIDIA driver 580 or later (here is 535.129.03)' \
    'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023'
said 'run: missing here: an NVIDIA driver, 580 or later' ''
echo 9.99 >there/needs-glibc
said "run: missing here: glibc 9.99 (here is $(getconf GNU_LIBC_VERSION | cut -d' ' -f2))" \
    'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build'
there/run penstock --version 2>/dev/null | grep -q '^penstock ' || fail "the program does not run from there"
exit $bad
