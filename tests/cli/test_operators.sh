#!/bin/sh
# test: label=quick timeout=60
# Where a step's time goes: the shares at the end of a run, work_s in metrics.jsonl, and the operators' lane in
# trace.json.
. "$(dirname "$0")/../script.sh"
cat >run.yaml <<TEXT
name: r
model: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 8}
data: {kind: text, paths: ["$SOURCE_DIR/src/base/*.c"], validation: 0}
train: {steps: 3, batch: 4, micro_batch: 2}
parallel: {schedule: 1f1b-early, transport: self}
checkpoint: {every: 0}
TEXT
for n in 1 2; do
    "$PENSTOCK" train run.yaml --runs runs$n -n $n threads=1 >out 2>err </dev/null ||
        fail "-n $n: status $?: $(cat err)"
    grep -q '^time  .*linear [0-9.]*%.*waiting [0-9.]*%' out || fail "-n $n: no shares: $(cat out)"
    [ "$(grep -c '"work_s":{.*"linear":.*"optimizer":' runs$n/r/metrics.jsonl)" = 3 ] || fail "-n $n: no work_s"
    trace=runs$n/r/trace.json
    # Per micro-batch: embedding 2 passes (F, W), 5 layer norms of 3, 9 linears of 3, 2 attentions of 2, 4 adds of 1,
    # cross entropy 2: 54 launches, in any cut.
    [ "$(grep -c '"cat":"operator"' $trace)" = 108 ] ||
        fail "-n $n: $(grep -c '"cat":"operator"' $trace) operators, not 108"
    [ "$(grep -c '"name":"operators"' $trace)" = $n ] || fail "-n $n: tracks of operators"
    grep -q '"operator":"linear","pass":"W","micro_batch":1,"gflop_per_s":' $trace || fail "-n $n: no rate"
done
exit $bad
