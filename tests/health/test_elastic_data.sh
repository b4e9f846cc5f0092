#!/bin/sh
# test: isa=any
# An elastic run does not go on with other files of data than it began with. It is elastic again when it is resumed.
. "$(dirname "$0")/../script.sh"
write_measured 3 10000 ""
"$PENSTOCK" train run.yaml -n 2 --elastic name=other train.batch=64 checkpoint.every=0 >log 2>&1 </dev/null &
run=$!
until grep -q '"step":3,' runs/other/metrics.jsonl 2>/dev/null; do sleep 0.01; done
grep -q '^  min: 1$' runs/other/run.yaml || fail "a resumed run would not be elastic"
{ cat text; echo more; } >longer
mv longer text
"$PENSTOCK" resize runs/other -n 3 >out 2>&1 </dev/null && fail "resized with other data: $(cat out)"
rc=0
wait $run || rc=$?
[ $rc = 2 ] && grep -q "data.paths are not those that the run began with" log || fail "other data: $rc, $(cat log)"
exit $bad
