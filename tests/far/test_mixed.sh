#!/bin/sh
# test: label=quick timeout=60 isa=any
# Processes whose machines have devices of different kinds: device auto takes what each has, and the job is refused with a
# line that says who has another.
. "$(dirname "$0")/../script.sh"
far=$(dirname "$PENSTOCK")/libpst-far.so
write_run 2
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) PENSTOCK_SECRET=0123456789abcdef

# start MODULE OF RANK 1: status of rank 0
start() {
    PENSTOCK_MODULE=$1 RANK=1 timeout 50 "$PENSTOCK" train run.yaml >1.log 2>&1 &
    PENSTOCK_MODULE=$far RANK=0 timeout 50 "$PENSTOCK" train run.yaml >0.log 2>&1
    rc=$?
    wait $!
    MASTER_PORT=$((MASTER_PORT + 1))
    return $rc
}
start "$far" || fail "the same: $(cat 0.log 1.log)"
start ""
[ $? = 2 ] && grep -q 'rank 1 computes on a different device than rank 0: parallel.device must name the same' 0.log ||
    fail "another device: $(cat 0.log 1.log)"
exit $bad
