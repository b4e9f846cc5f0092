#!/bin/sh
# test: label=quick timeout=30
# Signals that come while libraries are loaded (early_signals.c): those that stop a run end the program, although UCX takes
# them just then; SIGUSR1 is nothing, and so is what nohup ignores.
. "$(dirname "$0")/../script.sh"
[ -z "${PST_SANITIZE:-}" ] || skip "a sanitizer's library wants to be loaded first"
early="$(dirname "$PENSTOCK")/libpst-early.so"
[ -e "$early" ] || fail "there is no $early"
write_run 2

# train NUMBER: the status of a run that gets this signal
train() {
    rc=0
    rm -rf runs
    EARLY_SIGNAL=$1 LD_PRELOAD=$early "$PENSTOCK" train run.yaml -q >out 2>&1 </dev/null || rc=$?
}

for number in 1 15; do
    train $number
    [ $rc = $((128 + number)) ] || fail "signal $number: status $rc: $(cat out)"
    [ ! -e runs ] || fail "signal $number: a run has begun"
done
train 10
[ $rc = 0 ] || fail "SIGUSR1: status $rc: $(cat out)"
trap '' HUP
train 1
[ $rc = 0 ] || fail "SIGHUP is ignored: status $rc: $(cat out)"
exit $bad
