#!/bin/sh
# test: label=full timeout=200
# Reports in headless Chromium (skipped where it is not there): the script runs through, nothing is asked for, nothing
# is wider than the window, the picture is not blank.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$SOURCE_DIR/tests/report/browser.sh"

yes "all work and no play makes jack a dull boy" | head -40 >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 4, heads: 2, channels: 24, context: 10}
data: {kind: text, paths: [text.txt]}
train: {steps: 12, batch: 12, micro_batch: 2, warmup: 0, validate_every: 3}
END
"$PENSTOCK" train run.yaml -q -n 4 schedule=1f1b-early || fail "train"
"$PENSTOCK" train run.yaml -q -n 2 device=timed name=study || fail "study"
"$PENSTOCK" train run.yaml -q -n 1 name=one train.steps=1 data.validation=0 train.validate_every=0 || fail "one step"
mkdir runs/cut runs/many runs/still
# the same, with a timeline that does not depend on the machine's load
cp runs/run/*.yaml runs/run/metrics.jsonl runs/still
"$PENSTOCK" simulate --schedule 1f1b-early --stages 4 --micro-batches 4 --trace runs/still/trace.json >/dev/null ||
    fail "simulate"
head -n 3 runs/run/metrics.jsonl >runs/cut/metrics.jsonl
awk 'BEGIN {
    fixed = "\"lr\":1e-4,\"predicted_step_ms\":20,\"bubble\":0.1,\"tokens_per_s\":27000"
    for (i = 1; i <= 20000; i++)
        printf "{\"step\":%d,\"loss\":%.4f,\"step_ms\":%d,%s}\n", i, 5 - i / 9000 + i % 7 / 10,
            i % 5000 ? 20 + i % 3 : 900, fixed }' \
    >runs/many/metrics.jsonl
for run in run still study one cut many; do
    "$PENSTOCK" report runs/$run >/dev/null || fail "report $run"
    for width in 1280 500; do
        case $run$width in still* | many* | *1280) ;; *) continue ;; esac
        last_word runs/$run/report.html $width 'document.querySelectorAll(".numbers span").length, document.querySelectorAll(".cursor").length'
        [ $run != still ] || grep -q '<title>fits [1-9][0-9]* 8<' dom ||
            fail "$run at $width: $(grep -o '<title>[^<]*' dom)"
    done
    not_blank runs/$run/report.html
done
exit $bad
