#!/bin/sh
# test: label=quick timeout=120
# How long a run is: train.tokens, train.epochs, train.time_limit (and going on after it, to the same bits),
# stop.patience (also after a resume), checkpoint.keep_every.
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

train kept train.steps=5 checkpoint.keep=1 checkpoint.keep_every=2
[ "$(cd runs/kept/checkpoints && echo step-*)" = "step-00000002 step-00000004 step-00000005" ] ||
    fail "kept: $(ls runs/kept/checkpoints)"
exit $bad
