#!/bin/sh
# test: label=quick timeout=60
# The end of a run says what its steps took, measured and predicted, and what these words mean: to whom it may be new.
. "$(dirname "$0")/../script.sh"
cat >run.yaml <<TEXT
name: r
model: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 8}
data: {kind: text, paths: ["$SOURCE_DIR/src/base/*.c"], validation: 0}
train: {steps: 20, batch: 4, micro_batch: 2, warmup: 2}
parallel: {transport: self, threads: 1}
checkpoint: {every: 0}
TEXT
# run RANKS [key=value ...]: its standard output in the file out
run() {
    ranks=$1
    shift
    rm -rf runs
    "$PENSTOCK" train run.yaml -n "$ranks" "$@" >out 2>err </dev/null || fail "-n $ranks $*: status $?: $(cat err)"
}

run 2
# The medians of metrics.jsonl, steps 7 to 20.
median() { # KEY SCALE
    sed -n "s/.*\"step\":\([0-9]*\),.*\"$1\":\([0-9.e+-]*\).*/\1 \2/p" runs/r/metrics.jsonl | awk '$1 > 6 { print $2 }' |
        sort -g | awk -v s="$2" '{ v[NR] = $1 } END { printf "%.1f", s * (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
want="step time   $(median step_ms 1) ms measured, $(median predicted_step_ms 1) ms predicted (medians of steps 7 to 20)"
grep -qxF "$want" out || fail "not \"$want\": $(cat out)"
want="bubble      $(median bubble 100)% measured, $(median predicted_bubble 100)% predicted"
grep -qxF "$want" out || fail "not \"$want\": $(cat out)"
grep -q 'Bubble: the share of a step in which a rank waits' out || fail "no word on the bubble"
grep -q 'Predicted: simulated with durations measured in the first steps' out || fail "no word on the prediction"
grep -q 'Measured values differ from predicted ones if the load of the machine has changed' out || fail "no word on the difference"
[ "$(grep -c '^            ' out)" = 2 ] || fail "not two lines of explanation: $(cat out)"
grep -q 'The bubble is the share of a step' runs/r/report.html || fail "no word on the bubble in the report"

run 1 # one stage waits for none
grep -q '^step time ' out || fail "-n 1: no step time"
! grep -q '^bubble\|Bubble:' out || fail "-n 1: a bubble"
# more threads than processors: that may be the cause
run 2 parallel.transport=ucx parallel.threads=$(($(nproc) + 1))
grep -q '^oversubscribed: ' out || fail "not oversubscribed: $(cat out)"
grep -q 'Measured values differ from predicted ones if processors are oversubscribed, or' out || fail "no word on taking turns: $(cat out)"
run 2 steps=3 # a trial
grep -q '^bubble ' out || fail "3 steps: no bubble"
! grep -q 'Bubble:' out || fail "3 steps: an explanation"
run 2 -q
[ ! -s out ] || fail "-q: $(cat out)"
exit $bad
