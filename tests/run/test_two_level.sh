#!/bin/sh
# test: label=full timeout=120
# Two-level exchanges between replicas (parallel.exchange): the weights have the bits of a flat exchange, for zero 0 and 1,
# several stages, tensor ranks and islands, also after a resume with another layout; the run says which exchange it has;
# keys that contradict it are refused, and a key without effect is named.
. "$(dirname "$0")/../script.sh"
write_run 2
runs='micro_batch=1 train.seed=5 model.layers=1 model.channels=384 data.validation=0 parallel.threads=1 parallel.transport=self'
# weights NAME KEY=VALUE...: trains run NAME; prints the hash of its weights
weights() {
    name=$1; shift
    "$PENSTOCK" train run.yaml $runs name="$name" "$@" >"$name.log" 2>&1 || fail "$name: $(cat "$name.log")"
    sed -n 's/.*weights \([0-9a-f]\{16\}\).*/\1/p' "$name.log"
}
says() { grep -q "^exchange:  two-level: each $2 replicas of a host" "$1.log" || fail "$1: $(cat "$1.log")"; }
# same NAME NEAR KEY=VALUE...: flat and two-level
same() {
    name=$1 near=$2; shift 2
    flat=$(weights "$name-flat" "$@" parallel.exchange=flat)
    two=$(weights "$name-two" "$@" parallel.exchange=two-level)
    [ -n "$flat" ] && [ "$flat" = "$two" ] || fail "$name: weights $flat flat, $two two-level"
    says "$name-two" "$near"
    grep -q '^exchange' "$name-flat.log" && fail "$name: a flat exchange is called two-level"
}
nodes() { echo "parallel.cluster=$1 cpu ethernet:1Gb/s"; }
for zero in 0 1; do
    same four$zero 2 "$(nodes 2x2)" parallel.data=4 parallel.zero=$zero -n 4
    same stages$zero 2 "$(nodes 4x2)" parallel.pipeline=2 parallel.data=4 parallel.zero=$zero -n 8
done
same six 2 "$(nodes 3x2)" parallel.data=6 parallel.zero=0 batch=12 -n 6
same eight 4 "$(nodes 2x4)" parallel.data=8 parallel.zero=1 -n 8
same tensor 2 "$(nodes 2x4)" parallel.tensor=2 parallel.data=4 parallel.zero=0 -n 8
same islands 2 model.channels=64 "$(nodes 4x2)" parallel.data=8 parallel.zero=1 parallel.local.steps=2 parallel.local.islands=2 -n 8

# auto: by the links; what a codec packs stays flat
flat=$(weights flat "$(nodes 2x2)" parallel.data=4 parallel.exchange=flat -n 4)
auto=$(weights auto "$(nodes 2x2)" parallel.data=4 -n 4)
says auto 2
[ "$auto" = "$flat" ] || fail "auto: weights $auto, flat $flat"
weights slow parallel.cluster="2x2 cpu device:100Mb/s ethernet:1Gb/s" parallel.data=4 -n 4 >/dev/null
grep -q '^exchange' slow.log && fail 'an exchange over slow links within hosts is two-level'
weights packed "$(nodes 2x2)" parallel.data=4 parallel.compress.up=int8 -n 4 >/dev/null
grep -q '^exchange' packed.log && fail 'packed gradients are exchanged in two levels'

# another layout goes on with the same weights
first=$("$PENSTOCK" train --resume runs/four1-two steps=3 parallel.exchange=flat 2>&1 | sed -n 's/.*weights \([0-9a-f]\{16\}\).*/\1/p')
second=$("$PENSTOCK" train --resume runs/four1-flat steps=3 parallel.exchange=two-level 2>&1 | sed -n 's/.*weights \([0-9a-f]\{16\}\).*/\1/p')
[ -n "$first" ] && [ "$first" = "$second" ] || fail "resumed: weights $first and $second"

# refused KEY=VALUE TEXT
refused() {
    "$PENSTOCK" train run.yaml $runs "$(nodes 2x2)" parallel.exchange=two-level parallel.data=4 "$1" -n 4 >refused.log 2>&1
    [ $? = 2 ] || fail "$1 is not refused: $(cat refused.log)"
    grep -q "$2" refused.log || fail "$1: $(cat refused.log)"
}
refused parallel.zero=2 'use parallel.zero=1'
refused parallel.compress.up=int8 'use parallel.compress.up=none'
refused parallel.gradients=bf16 'use parallel.gradients=fp32'
refused parallel.update=delayed 'use parallel.update=sync'
refused parallel.exchange=deep 'flat, two-level'
weights one "$(nodes 1x4)" parallel.exchange=two-level parallel.data=4 -n 4 >/dev/null
grep -q 'parallel.exchange=two-level has no effect: all replicas of a stage are on one host' one.log || fail "$(cat one.log)"
exit $bad
