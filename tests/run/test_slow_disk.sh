#!/bin/sh
# test: label=full timeout=120 serial
# Reads that are slower than memory but faster than a step cost no time, because batches are read ahead; of slower ones
# data_wait_ms says how long the step waited. The disk is made slow by slow_reads.c.
. "$(dirname "$0")/../script.sh"
[ -z "${PST_SANITIZE:-}" ] || skip "a sanitizer's library wants to be loaded first"
slow="$(dirname "$PENSTOCK")/libpst-slow-reads.so"
[ -e "$slow" ] || fail "there is no $slow"
yes "the quick brown fox jumps over the lazy dog" | head -n 4000 >text.txt
cat >run.yaml <<END
model: {kind: gpt, layers: 2, heads: 4, channels: 96, context: 128}
data: {paths: [text.txt], validation: 0}
train: {steps: 12, batch: 4, micro_batch: 4}
parallel: {threads: 1}
checkpoint: {every: 0}
END

# median NAME KEY: of the steps from the third on, in whole microseconds
median() {
    sed -n "s/.*\"$2\":\([0-9.e-]*\),.*/\1/p" "runs/$1/metrics.jsonl" | tail -n +3 | sort -g |
        awk '{ x[NR] = $1 } END { printf "%d\n", x[int((NR + 1) / 2)] * 1000 }'
}
# run NAME US: each of the four reads of a step takes so long
run() {
    SLOW_FILE=text.txt SLOW_US=$2 LD_PRELOAD=$slow timeout 60 "$PENSTOCK" train run.yaml -q -n 1 name="$1" >out 2>&1 ||
        fail "$1: $(cat out)"
}

run fast 0
step=$(median fast step_ms)
run hidden $((step / 16)) # a quarter of a step
run slow $((step * 10 / 4)) # ten steps
[ "$(median hidden data_wait_ms)" -lt $((step / 10)) ] ||
    fail "reads of $((step / 4)) us in steps of $step us: waited $(median hidden data_wait_ms) us"
[ "$(median slow data_wait_ms)" -gt $((step * 5)) ] ||
    fail "reads of $((step * 10)) us in steps of $step us: waited only $(median slow data_wait_ms) us"
[ "$(median slow data_wait_ms)" -lt "$(median slow step_ms)" ] || fail "the wait is not a part of the step"
for name in hidden slow; do
    [ "$(grep -o 'weights_xxh64":"[0-9a-f]*' runs/$name/metrics.jsonl)" = \
        "$(grep -o 'weights_xxh64":"[0-9a-f]*' runs/fast/metrics.jsonl)" ] || fail "$name: other weights"
done
grep -q 'Wait for data' runs/slow/report.html || fail "the report does not show it"
exit $bad
