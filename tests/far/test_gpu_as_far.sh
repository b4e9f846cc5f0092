#!/bin/sh
# test: label=full timeout=200 isa=any
# The test of training on a GPU (test_gpu.c) on the device that behaves like one, from a folder of its own: what it
# asks for can be had, and it needs nothing from where it was built. Without such a device it is skipped.
. "$(dirname "$0")/../script.sh"
build=$(dirname "$PENSTOCK")
test=$(find "$build" -maxdepth 2 -name test_far_gpu -type f | head -n 1)
[ -x "$test" ] || fail "there is no test_far_gpu below $build"
PENSTOCK_MODULE=$build/libpst-far.so GPU_TRAINS_DEVICE=far "$test" >log 2>&1 || fail "on far: $(tail -n 20 log)"
grep -q 'PASSED.* 7 test' log || fail "not all were run: $(cat log)"
PENSTOCK_MODULE=/nowhere.so "$test" >log 2>&1
[ $? = 77 ] && grep -q '^skipped: device cuda: ' log || fail "without a module: $(cat log)"
exit $bad
