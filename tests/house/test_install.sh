#!/bin/sh
# test: label=full timeout=120
# What `cmake --install` leaves is enough for a program: its examples/train.c is built by pkg-config and find_package
# against a temporary prefix and nothing else, its loss falls, and the installed penstock reads its checkpoint.
set -eu
[ -z "${PST_SANITIZE:-}" ] || { echo "skipped: a plain program cannot load an instrumented library"; exit 77; }
command -v cmake >/dev/null 2>&1 && command -v pkg-config >/dev/null 2>&1 ||
    { echo "skipped: no cmake or no pkg-config here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}
cmake --install "$(dirname "$PENSTOCK")" --prefix "$work/prefix" >"$work/log"
library=$(dirname "$(find "$work/prefix" -name libpenstock.so)")
cp -r "$(find "$work/prefix" -type d -name examples)" "$work/src"

# PROGRAM FOLDER: runs it where no header or library of the project is near.
run() {
    (cd "$work" && LD_LIBRARY_PATH=$library "$1" "$2" >"$2.out")
    cat "$work/$2.out"
    sed -n 's/^step [0-9]* *loss \([0-9.]*\) .*/\1/p' "$work/$2.out" >"$work/losses"
    awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR > 3 && last < first / 10) }' "$work/losses" ||
        fail "$2: the loss does not fall"
    grep -q '^read back: step 100$' "$work/$2.out" || fail "$2: nothing was read back"
    "$work/prefix/bin/penstock" inspect "$work/$2" >"$work/inspect"
    grep -q '^step  *100$' "$work/inspect" || fail "$2: the checkpoint is not of step 100"
    grep -q 'hidden.1.weight .*rank-' "$work/inspect" || fail "$2: the checkpoint lacks a weight"
    sed -n 's/^  //p' "$work/inspect" >"$work/$2.weights"
}

export PKG_CONFIG_PATH="$library/pkgconfig"
flags=$(pkg-config --cflags --libs penstock)
case $flags in *"$work/prefix"*) ;; *) fail "pkg-config answers with another penstock: $flags" ;; esac
# shellcheck disable=SC2086 # a list
cc -O2 -Wall -Wextra -Werror "$work/src/train.c" -o "$work/by_pkg_config" $flags
run "$work/by_pkg_config" one

if command -v c++ >/dev/null 2>&1; then # names are C's there, too
    printf '#include <penstock/train.h>\nint main() { return pst_config_open(0, 0, 0, 0) != PST_EINPUT; }\n' \
        >"$work/use.cc"
    # shellcheck disable=SC2086
    c++ -std=c++11 "$work/use.cc" -o "$work/use" $flags
    LD_LIBRARY_PATH=$library "$work/use" || fail "a C++ program cannot use the library"
fi

# The same program as a job of two processes. Debian's mpirun, like others, wants to be told that root may and cores are
# few.
if mpirun --version >/dev/null 2>&1; then
    (cd "$work" &&
        LD_LIBRARY_PATH=$library timeout 60 mpirun -n 2 --allow-run-as-root --oversubscribe ./by_pkg_config job) \
        >"$work/job.out" 2>&1 || fail "under mpirun: $(tail -3 "$work/job.out")"
    [ "$(grep -c '^read back: step 100$' "$work/job.out")" = 2 ] || fail "under mpirun: not two ranks have read back"
    "$work/prefix/bin/penstock" inspect "$work/job" | sed -n 's/^  //p' | diff "$work/one.weights" -
fi

cmake -S "$work/src" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >>"$work/log"
cmake --build "$work/build" >>"$work/log"
run "$work/build/train" two
diff "$work/one.weights" "$work/two.weights" # the same bits

# The key-value store, with as many processes as above: equal bits with a server and without one.
if mpirun --version >/dev/null 2>&1; then
    for servers in 0 1; do
        LD_LIBRARY_PATH=$library timeout 60 mpirun -n $((2 + servers)) --allow-run-as-root --oversubscribe \
            "$work/build/kv" $servers >"$work/kv.$servers" 2>&1 || fail "kv $servers: $(tail -3 "$work/kv.$servers")"
        grep -c '^worker' "$work/kv.$servers" | grep -qx 2 || fail "kv $servers: $(cat "$work/kv.$servers")"
        grep '^worker' "$work/kv.$servers" | sort >"$work/kv.$servers.weights"
    done
    diff "$work/kv.0.weights" "$work/kv.1.weights"
fi
