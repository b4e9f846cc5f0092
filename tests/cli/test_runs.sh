#!/bin/sh
# test: label=quick timeout=120 sanitize=address
# `penstock runs` and `penstock compare` on runs that are complete, killed, and equal.
. "$(dirname "$0")/../script.sh"
write_run 2
sed -i 's/steps: 2, batch: 8/steps: 6, batch: 8, micro_batch: 4/' run.yaml
for run in "one lr=1e-3" "same lr=1e-3" "other lr=2e-3"; do
    # shellcheck disable=SC2086 # words
    "$PENSTOCK" train run.yaml name=$run -q 2>err || fail "$run: $(cat err)"
done
"$PENSTOCK" train run.yaml name=later lr=1e-3 train.seed=2 train.steps=3 -q 2>err || fail "$(cat err)"
sed -i '$d' runs/other/metrics.jsonl # as if it had been killed

"$PENSTOCK" runs >out 2>err || fail "runs: $(cat err)"
[ "$(awk '{ print $1 }' out | tr '\n' ' ')" = "run later one other same " ] || fail "rows: $(cat out)"
grep -q '^one  *done  *6/6 .* good$' out || fail "row of one: $(cat out)"
grep -q '^other  *failed or killed  *6/6 ' out || fail "row of other: $(cat out)"
"$PENSTOCK" runs runs/one | grep -q '^one  *done' || fail "the row of one run"
"$PENSTOCK" runs nowhere >out 2>err && fail "a missing folder is accepted"
grep -q 'nowhere: No such file or directory; expected the folder of runs' err || fail "missing folder: $(cat err)"
mkdir empty
"$PENSTOCK" runs empty >out 2>err && fail "an empty folder is accepted"
grep -q 'empty has no folder with a metrics.jsonl' err || fail "empty folder: $(cat err)"

"$PENSTOCK" compare runs/one runs/same >out 2>err || fail "compare: $(cat err)"
grep -q '^first difference: none; the losses and gradient norms of 6 common steps are equal' out || fail "equal runs: $(cat out)"
grep -q '^final weights: equal, to the bit' out || fail "equal weights: $(cat out)"
[ "$(sed -n '/^settings that differ/,/^$/p' out)" = "settings that differ
  none" ] || fail "settings of equal runs: $(cat out)"
"$PENSTOCK" compare runs/one runs/other >out 2>err || fail "compare: $(cat err)"
grep -q '^first difference: step 2, loss ' out || fail "another rate: $(cat out)"
grep -q '^  train.lr  *0.001  *0.002$' out || fail "settings: $(cat out)"
[ "$(wc -l <out)" -lt 50 ] || fail "more than a page: $(wc -l <out) lines"
"$PENSTOCK" compare runs/one runs/later >out 2>err || fail "compare: $(cat err)"
grep -q '^first difference: step 1, loss ' out || fail "another seed: $(cat out)"
grep -q '^last step  *6  *3  *0.500$' out || fail "results: $(cat out)"
# the layout, copies of one tokenizer, values without the quotes of YAML, ranks that are no longer there
"$PENSTOCK" tokenize --train --vocabulary 300 -o tok text.txt >out 2>&1 || fail "tokenizer: $(cat out)"
"$PENSTOCK" train run.yaml name=left data.tokenizer=tok steps=1 -n 2 -q 2>err || fail "left: $(cat err)"
"$PENSTOCK" train run.yaml name=right data.tokenizer=tok steps=1 'train.freeze=["*.bias"]' -q 2>err || fail "right: $(cat err)"
"$PENSTOCK" compare runs/left runs/right >out 2>err || fail "compare: $(cat err)"
grep -q '^  train.freeze  *\[\]  *\[\*.bias\]$' out || fail "a pattern: $(cat out)"
grep -q '^  layout.ranks  *2  *1$' out && grep -q '^  layout.operators  *0 to .*, .* to ' out || fail "layout: $(cat out)"
grep -q 'tokenizer' out && fail "copies of one tokenizer differ: $(cat out)"
"$PENSTOCK" train --resume runs/left steps=2 -n 1 -q 2>err || fail "resume: $(cat err)"
"$PENSTOCK" compare runs/left runs/right >out 2>err || fail "compare: $(cat err)"
grep -q '^arena written, most, MiB  *[0-9.]*  *[0-9.]*  *[0-9.]*$' out || fail "arena after a resume: $(cat out)"
"$PENSTOCK" compare runs/one >out 2>err && fail "one run is accepted"
"$PENSTOCK" compare runs/one text.txt >out 2>err && fail "a file is accepted as a run"
grep -q 'expected the folder of a run' err || fail "a file as a run: $(cat err)"

# the time left of a run that trains: of its tokens at the recent rate, because later steps may have more of them
# (train.batch_warmup); of its steps, if it is of a version that does not say how many tokens it will have
mkdir -p live/a
step='{"step":1,"tokens":100,"tokens_per_s":50,"step_ms":2000,"loss":1}'
# left START WANT
left() {
    printf '%s\n%s\n' "$1" "$step" >live/a/metrics.jsonl
    flock live/a "$PENSTOCK" runs live | grep -q "^a  *running  *1/10 .* $2  *good$" ||
        fail "left: expected $2: $(flock live/a "$PENSTOCK" runs live)"
}
if command -v flock >/dev/null; then
    left '{"event":"start","step":0,"steps":10,"run_tokens":3000}' 0:58
    left '{"event":"start","step":0,"steps":10}' 0:18
else echo "skipped: the time left: needs flock"
fi
exit $bad
