#!/bin/sh
# test: label=quick timeout=240 sanitize=address
# train.spike: a text of one letter with one window of other letters, whose loss is a spike. warn changes nothing; skip and
# rewind give the same weights in another layout and after a resume; each event is in metrics.jsonl.
. "$(dirname "$0")/../script.sh"
cat >run.yaml <<END_OF_RUN
model: {kind: mlp, layers: 1, channels: 16, context: 16}
data: {paths: [text.txt], validation: 0}
train: {steps: 140, batch: 4, micro_batch: 2, lr: 1.0e-2, warmup: 0, decay: none}
checkpoint: {every: 10, keep: 100}
END_OF_RUN
awk 'BEGIN { for (i = 0; i < 4096; i++) printf("%c", (i >= 2000 && i < 2016) ? 98 + i % 16 : 97) }' >text.txt

hash_of() { tail -n 1 "runs/$1/metrics.jsonl" | sed 's/.*weights_xxh64": *"\([0-9a-f]*\)".*/\1/'; }
# train NAME ARGUMENT...
train() {
    name=$1
    shift
    "$PENSTOCK" train run.yaml "name=$name" -q "$@" 2>err || fail "$name $*: $(cat err)"
}
spikes() { grep -c "\"event\":\"spike\".*\"action\":\"$2\"" "runs/$1/metrics.jsonl"; }

train off
grep -q '"spike"' runs/off/metrics.jsonl && fail "spikes are looked for without train.spike"
train warn train.spike=warn
[ "$(spikes warn warn)" -ge 1 ] || fail "no spike is found"
[ "$(hash_of warn)" = "$(hash_of off)" ] || fail "a warning changes the weights"

for action in skip rewind; do
    train $action train.spike=$action
    [ "$(spikes $action $action)" -ge 1 ] || fail "$action: no spike: $(grep event runs/$action/metrics.jsonl)"
    [ "$(hash_of $action)" != "$(hash_of off)" ] || fail "$action changes nothing"
    train $action-2 train.spike=$action -n 2
    [ "$(hash_of $action-2)" = "$(hash_of $action)" ] || fail "$action: other weights on two ranks"
    [ "$(grep -c '"loss":.*"lr":' runs/$action/metrics.jsonl)" = 140 ] || fail "$action: not one line per step"
    cp -r runs/$action/checkpoints/step-00000100 runs/$action-100
    "$PENSTOCK" train --resume runs/$action-100 --runs resumed -q 2>err || fail "resume $action: $(cat err)"
    [ "$(tail -n 1 resumed/*/metrics.jsonl | sed 's/.*weights_xxh64": *"\([0-9a-f]*\)".*/\1/')" = "$(hash_of $action)" ] ||
        fail "$action: other weights after a resume"
    rm -r resumed
done
next=$(sed -n 's/.*"next_sample": *\([0-9]*\).*/\1/p' runs/rewind/checkpoints/step-00000140/index.json)
[ "$next" -gt 560 ] || fail "no batch was left out: $next"
"$PENSTOCK" runs | grep -q '^skip .* spikes*$' || fail "spikes are no part of health: $("$PENSTOCK" runs)"
# spikes behind one checkpoint: each stays in the file when a later one drops its step
train many train.spike=rewind checkpoint.every=40
[ "$(spikes many rewind)" -ge 3 ] || fail "spikes are dropped: $(grep event runs/many/metrics.jsonl)"
train none train.spike=rewind checkpoint.every=0
[ "$(spikes none skip)" -ge 1 ] || fail "without a checkpoint a spike is not skipped: $(grep spike runs/none/metrics.jsonl)"
exit $bad
