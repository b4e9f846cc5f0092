#!/bin/sh
# test: label=full timeout=600 isa=any
# Tests of runs that leave the device to the program, with one that the host cannot reach (far_module.c): sessions,
# numbers that are none, weights of others, random layouts.
set -eu
build=$(dirname "$PENSTOCK")
PENSTOCK_MODULE=$build/libpst-far.so
export PENSTOCK_MODULE
[ -e "$PENSTOCK_MODULE" ]
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for test in run_session run_session_ranks health_non_finite checkpoint_hf checkpoint_resume run_post_validation run_any_layout; do
    rc=0
    "$build/test_$test" >"$out" 2>&1 || rc=$?
    [ $rc = 0 ] || [ $rc = 77 ] || {
        cat "$out"
        echo "FAILED: $test: status $rc"
        exit 1
    }
done
