#!/bin/sh
# test: label=quick timeout=120 isa=any sanitize=address
# plan --time-limit: the best so far with its gap, and where nothing fits, no more trying of what would.
. "$(dirname "$0")/../script.sh"

cat >large.yaml <<'END_OF_FILE'
model: {kind: gpt, preset: gpt3-175b}
data: {paths: [text]}
train: {batch: 1536, precision: bf16}
END_OF_FILE
# limited ARGUMENT...: ends in less than a minute, which is many times what it takes on a slow machine
limited() {
    start=$(date +%s) rc=0
    "$PENSTOCK" plan large.yaml "$@" >out 2>err </dev/null || rc=$?
    [ $(($(date +%s) - start)) -le 60 ] || fail "plan $* took $(($(date +%s) - start)) s"
}
limited --cluster '128x8 h100 nvlink:900GB/s ib:400Gb/s' --time-limit 0.01 --json -o plan.yaml
[ $rc = 0 ] && grep -q '"fits": true' out && grep -q '"timed_out": true' out || fail "status $rc: $(cat out err)"
gap=$(sed -n 's/^  "gap": \([0-9.e-]*\),$/\1/p' out)
awk "BEGIN { exit !($gap > 0) }" || fail "gap '$gap'"
grep -q '^graph_hash: ' plan.yaml || fail "$(cat plan.yaml)"
# the pipeline that stands for all is the slowest, wherever it is
"$PENSTOCK" simulate plan.yaml --what-if device.900.speed=0.5 --json >out 2>err || fail "simulate: $(cat err)"
[ "$(grep '"makespan_ns"' out | sort -u | wc -l)" = 2 ] || fail "a slow device changes nothing: $(grep makespan out)"

limited --cluster '8x8 a100-40 ib:200Gb/s' --time-limit 0.01
[ $rc = 4 ] && grep -q 'no layout found in time fits in the memory of 64 devices: .* more on stage' err || fail "status $rc: $(cat out err)"
! grep -q 'would fit' err && grep -q 'no time was left to search' err || fail "tried after its time: $(cat err)"

# more ranks than can be run: planned and simulated, but not trained
limited --cluster '256x8 h100 nvlink:900GB/s ib:400Gb/s' batch=2048 --time-limit 0.01 -o many.yaml
[ $rc = 0 ] && grep -q 'on 2048 devices' out || fail "status $rc: $(cat out err)"
planned=$(sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' many.yaml)
"$PENSTOCK" simulate many.yaml --json >simulated 2>err || fail "simulate: $(cat err)"
grep -q "\"makespan_ns\": $planned" simulated || fail "planned $planned ns: $(grep makespan simulated)"
"$PENSTOCK" train large.yaml -n 2048 >out 2>err && fail "2048 ranks are trained"
grep -q 'from 1 to 1024' err || fail "$(cat err)"

# devices that lack the precision are no part of any layout, so the first one that is tried can be compiled
limited --cluster '8x8 h100 + 8x8 v100 ib:100Gb/s' --time-limit 0.01 --top 60
[ $rc = 0 ] && grep -q 'on 128 devices' out || fail "status $rc: $(cat out err)"
awk '/^pipeline /, /^step ms/ { if ($1 * $2 * $3 > 64) exit 1 }' out || fail "more ranks than H100: $(cat out)"
limited --cluster '1x8 h100 + 1x4 v100 ib:100Gb/s' pipeline=12 tensor=1 data=1
[ $rc = 2 ] && grep -q 'fit on the 8 of 12 devices that support this train.precision' err || fail "status $rc: $(cat err)"

# a deep model is cut between its layers
cat >deep.yaml <<'END_OF_FILE'
model: {kind: gpt, layers: 1000, heads: 2, channels: 32, context: 16}
data: {paths: [text]}
train: {batch: 8}
END_OF_FILE
"$PENSTOCK" plan deep.yaml pipeline=3 data=1 --cluster '1x3 h100 nvlink:900GB/s' -o deep.plan >out 2>err || fail "deep: $(cat err)"
[ "$(sed -n 's/.*{chunk: [1-9].*# h\.[0-9]*\.\([^ ]*\) .*/\1/p' deep.plan | sort -u | wc -l)" = 1 ] || fail "$(grep '{chunk' deep.plan)"

# of rows that do not fit, where others do, what comes near is said
limited --cluster '8x8 h100 nvlink:900GB/s ib:400Gb/s' --top 60
grep -q '^ *8  *2  *4 .* about [0-9][0-9]\.[0-9] GiB over the memory of stage' out || fail "not what comes near: $(cat out)"

# jobs of few ranks whose replicas exchange much: none of what is tried is prepared in whole
limited --cluster '8x8 h100 ib:400Gb/s' --time-limit 40 train.batch=96 zero=2 pipeline=16 tensor=1 data=4 -o none.yaml
[ $rc = 4 ] && grep -q 'a layout would fit with [0-9.]* GiB of memory per device; no plan is written to none.yaml' err || fail "status $rc: $(cat err)"

# whenever it ends: the step that is planned is that of the lists, and of nothing else is said that it is as good
cat >small.yaml <<'END_OF_FILE'
model: {kind: gpt, layers: 4, heads: 2, channels: 32, context: 16}
data: {paths: [text]}
train: {batch: 64}
END_OF_FILE
for limit in 0.001 0.01 0.02 0.05; do
    "$PENSTOCK" plan small.yaml --cluster '16x8 h100 ib:400Gb/s' --time-limit $limit -o small.plan >out 2>err || fail "$limit s: $(cat err)"
    planned=$(sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' small.plan)
    "$PENSTOCK" simulate small.plan --json >simulated 2>err || fail "simulate: $(cat err)"
    grep -q "\"makespan_ns\": $planned" simulated || fail "$limit s: planned $planned ns: $(grep makespan simulated)"
done
exit $bad
