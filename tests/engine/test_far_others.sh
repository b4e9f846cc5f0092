#!/bin/sh
# test: label=full timeout=600
# Tests of the engine that leave the device to the program, with one that the host cannot reach (far_module.c): sessions,
# numbers that are none, weights of others, checkpoints while training goes on, random layouts.
set -eu
build=$(dirname "$PENSTOCK")
PENSTOCK_MODULE=$build/libpst-far.so
export PENSTOCK_MODULE
[ -e "$PENSTOCK_MODULE" ]
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for test in session session_ranks non_finite hf resume post_validation saving any_layout; do
    rc=0
    "$build/test_engine_$test" >"$out" 2>&1 || rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || {
        cat "$out"
        echo "FAILED: $test: status $rc"
        exit 1
    }
done
