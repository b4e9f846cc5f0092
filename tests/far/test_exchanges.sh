#!/bin/sh
# test: label=quick timeout=60 isa=any
# What tensor ranks exchange on a device that queues it (far_direct.c): the bits are those of exchanges that the host
# drives, with as many ranks; parallel.collectives fast adds in another order, and is refused where nothing does.
. "$(dirname "$0")/../script.sh"
use_far
write_run 4
export FAR_GPUS=4

# losses NAME ARGUMENT...: trains, and prints losses and norms of its steps
losses() {
    name=$1
    shift
    "$PENSTOCK" train run.yaml -n 4 parallel.tensor=4 train.micro_batch=2 eval.tokens=32 log.level=info name="$name" "$@" \
        >"$name.log" 2>&1 || fail "$name: $(cat "$name.log")"
    grep -o '"\(loss\|grad_norm\)":[0-9.e+-]*' "runs/$name/metrics.jsonl"
}

for sequence in false true; do
    staged=$(losses "staged-$sequence" parallel.device=far parallel.transport=ucx parallel.sequence=$sequence)
    queued=$(losses "queued-$sequence" parallel.device=far parallel.transport=nccl parallel.sequence=$sequence)
    fast=$(losses "fast-$sequence" parallel.device=far parallel.transport=nccl parallel.sequence=$sequence \
        parallel.collectives=fast)
    grep -q 'far: messages go directly' "queued-$sequence.log" || fail "not directly: $(cat "queued-$sequence.log")"
    [ -n "$staged" ] && [ "$staged" = "$queued" ] || fail "sequence $sequence: $queued instead of $staged"
    [ "$fast" != "$queued" ] || fail "sequence $sequence: fast sums were exact"
    echo "$queued $fast" | tr ' ' '\n' | grep loss | cut -c8-12 | sort | uniq -c | awk '$1 % 2 { exit 1 }' ||
        fail "sequence $sequence: fast $fast, exact $queued"
done

"$PENSTOCK" train run.yaml -n 4 parallel.tensor=4 parallel.device=cpu parallel.collectives=fast >out 2>&1
[ $? = 2 ] && grep -q '^penstock: parallel.collectives fast needs GPUs and parallel.transport=nccl' out ||
    fail "on CPUs: $(cat out)"
"$PENSTOCK" train run.yaml -n 1 parallel.device=cpu parallel.collectives=fast >out 2>&1
[ $? = 0 ] && grep -q 'parallel.collectives has no effect without parallel.tensor' out || fail "one rank: $(cat out)"
exit $bad
