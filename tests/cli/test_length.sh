#!/bin/sh
# test: label=quick timeout=120 sanitize=address
# How long a run is: train.tokens, train.epochs, train.time_limit (and going on after it, to the same bits),
# stop.patience (also after a resume), checkpoint.best, checkpoint.keep_every.
. "$(dirname "$0")/../script.sh"
write_run 2
sed -i 's/steps: 2, batch: 8/batch: 8, micro_batch: 4, lr: 1.0e-2/' run.yaml

# train FOLDER ARGUMENT...: a run of that name; its output is in out and err
train() {
    name=$1
    shift
    "$PENSTOCK" train run.yaml "name=$name" "$@" >out 2>err || fail "train $name $*: status $?: $(cat err)"
}
# ends WHY STEPS RUN
ends() {
    tail -n 1 "runs/$3/metrics.jsonl" | grep -q "\"steps\": *$2,.*\"why\": *\"$1\"" ||
        fail "$3: expected '$1' after step $2: $(tail -n 1 "runs/$3/metrics.jsonl")"
}
hash_of() { tail -n 1 "runs/$1/metrics.jsonl" | sed 's/.*weights_xxh64": *"\([0-9a-f]*\)".*/\1/'; }

train tokens train.tokens=500 # 8 x 16 tokens per step
ends done 4 tokens
grep -q '^  steps:' runs/tokens/run.yaml && fail "the copy has train.steps beside train.tokens"
train epochs train.epochs=2 data.validation=0.5
half=$(($(wc -c <text.txt) / 2)) # windows of 16, shifted by up to 15
ends done $((((half - 16) / 16 * 2 + 7) / 8)) epochs

train whole train.steps=6
train limited train.steps=6 train.time_limit=0.001
ends 'time limit' 1 limited
grep -q 'time limit reached after step 1' out || fail "the end is not said: $(cat out)"
[ -e runs/limited/checkpoints/step-00000001/index.json ] || fail "no checkpoint at the time limit"
grep -q '"event": *"validation", *"step": *1,' runs/limited/metrics.jsonl || fail "no validation at the time limit"
"$PENSTOCK" train --resume runs/limited train.time_limit=1d -n 2 >out 2>err || fail "going on: $(cat err)"
ends done 6 limited
[ "$(hash_of whole)" = "$(hash_of limited)" ] || fail "other weights after a time limit"

train worse train.steps=40 eval.every=1 stop.patience=3 lr=0.5 warmup=0 decay=none
steps=$(tail -n 1 runs/worse/metrics.jsonl | sed 's/.*"steps": *\([0-9]*\),.*/\1/')
ends patience "$steps" worse
[ "$steps" -lt 40 ] || fail "patience did not end the run"
[ -e "runs/worse/checkpoints/step-0000000$((steps - 3))/index.json" ] || fail "no best checkpoint: $(ls runs/worse/checkpoints)"
"$PENSTOCK" train --resume runs/worse >out 2>err || fail "resume after patience: $(cat err)"
ends patience "$steps" worse
"$PENSTOCK" train --resume runs/worse stop.patience=4 >out 2>err || fail "more patience: $(cat err)"
ends patience $((steps + 1)) worse

# the best checkpoint by another set than the validation split: other.txt, on which the run becomes worse
tr a-z n-za-m <text.txt >other.txt
"$PENSTOCK" train run.yaml name=x checkpoint.best=other >out 2>err && fail "an unknown set is taken"
grep -q "override 'checkpoint.best=other': checkpoint.best is other; expected validation or a name of eval.sets" err ||
    fail "an unknown set: $(cat err)"
"$PENSTOCK" train run.yaml name=x eval.sets.validation=other.txt >out 2>err && fail "a set takes the name of the split"
grep -q 'eval.sets.validation: this is the name of the validation split' err || fail "the name of the split: $(cat err)"
best_is() { # STEP RUN
    [ "$(readlink "runs/$2/checkpoints/best")" = "step-0000000$1" ] ||
        fail "best of $2 is $(readlink "runs/$2/checkpoints/best"), not $1: $(grep validation "runs/$2/metrics.jsonl")"
}
train split train.steps=6 eval.every=1 lr=3.0e-2 eval.sets.other=other.txt
best_is 6 split
train set train.steps=6 eval.every=1 lr=3.0e-2 eval.sets.other=other.txt checkpoint.best=other
lowest=$(sed -n 's/.*"validation", *"step": *\([0-9]*\).*"other": *{"loss": *\([0-9.]*\).*/\2 \1/p' runs/set/metrics.jsonl |
    sort -g | head -n 1)
[ "${lowest#* }" -lt 6 ] || fail "the set says the same as the split: $lowest"
best_is "${lowest#* }" set
[ "$(hash_of split)" = "$(hash_of set)" ] || fail "checkpoint.best changes the weights"
"$PENSTOCK" inspect runs/set/checkpoints/best | grep -q "^loss of other *$(printf %.6f "${lowest% *}")" || fail "inspect: $lowest"
"$PENSTOCK" train --resume runs/set train.steps=7 >out 2>err || fail "resume: $(cat err)"
best_is "${lowest#* }" set
"$PENSTOCK" train --resume runs/set train.steps=8 checkpoint.best=validation >out 2>err || fail "resume: $(cat err)"
best_is 6 set # of the checkpoints that are there

train kept train.steps=5 checkpoint.keep=1 checkpoint.keep_every=2
[ "$(cd runs/kept/checkpoints && echo step-*)" = "step-00000002 step-00000004 step-00000005" ] ||
    fail "kept: $(ls runs/kept/checkpoints)"
exit $bad
