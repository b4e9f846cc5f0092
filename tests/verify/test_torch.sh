#!/bin/sh
# test: label=full timeout=600
# `penstock verify --torch`: PyTorch and, where installed, transformers compute what gpt, bert and mlp compute; a wrong
# weight decay is found, and without PyTorch --torch is refused.
. "$(dirname "$0")/../script.sh"
write_run 2

# refuses PYTHON REASON: status 2 before the first run
refuses() {
    rc=0
    PST_TORCH_PYTHON=$1 "$PENSTOCK" verify run.yaml --torch >out 2>err || rc=$?
    [ $rc = 2 ] && [ ! -s out ] && grep -q "$2" err || fail "--torch with $1: status $rc, expected 2 and '$2': $(cat out err)"
}
refuses /nowhere/python "cannot start /nowhere/python: No such file"
refuses false "false has no PyTorch"

. "$SOURCE_DIR/tests/parity/torch.sh"
need_torch ''
PST_TORCH_PYTHON=$python
export PST_TORCH_PYTHON

# agrees ARGUMENT...: with PyTorch
agrees() {
    "$PENSTOCK" verify "$@" --torch >out 2>err </dev/null || fail "verify $*: $(cat out err)"
    grep -q "^passed  one rank, against PyTorch" out || fail "verify $*: no comparison with PyTorch: $(cat out)"
}

# with_transformers: the comparison before was also with transformers
models=
"$python" -c 'import transformers' 2>/dev/null && models=yes
with_transformers() {
    [ -z "$models" ] || grep -q " and transformers " out || fail "no comparison with transformers: $(cat out)"
}

agrees run.yaml train.clip=0.1 model.dropout=0.1
with_transformers
"$PENSTOCK" tokenize --train --vocabulary 270 -o tok text.txt >out || fail "learning: $(cat out)"
for i in $(seq 60); do
    echo "{\"text\": \"$(seq -s ' ' $((i % 7)))\"}"
done >docs.jsonl
agrees run.yaml data.paths=docs.jsonl data.tokenizer=tok data.cache=cache data.isolate=true
agrees run.yaml train.optimizer=sgd train.lr=0.05
cat >other.yaml <<END_OF_RUN
model: {kind: bert, layers: 2, heads: 2, channels: 32, context: 24}
data: {kind: lines, paths: [text.txt]}
train: {batch: 4, micro_batch: 2}
END_OF_RUN
agrees other.yaml
with_transformers
agrees other.yaml model.token_types=0 model.max_predictions=24
with_transformers
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' $(seq 0 30) >vocab.txt
for i in $(seq 200); do
    [ $((i % 8)) = 0 ] && echo
    seq -s ' ' $((i % 7)) $((i % 7 + i % 3 + 2))
done >sentences.txt
agrees other.yaml model.next_sentence=true data.paths=sentences.txt data.tokenizer=vocab.txt data.cache=cache
with_transformers
cat >labels.csv <<END_OF_TEXTS
text,label
1 2 3,low
4 5,low
21 22,high
23 24 25,high
11 12,middle
13,middle
26 27,high
6 7 8,low
9 10,low
28,high
END_OF_TEXTS
agrees other.yaml data.kind=labels data.paths=labels.csv data.tokenizer=vocab.txt model.task=classification \
    model.intermediate=48 model.norm_eps=1e-6
with_transformers
cat >other.yaml <<END_OF_RUN
model: {kind: mlp, preset: tiny}
data: {kind: text, paths: [text.txt]}
train: {batch: 4, micro_batch: 2}
END_OF_RUN
agrees other.yaml

# A number of the recording is changed before PyTorch reads it.
"$PENSTOCK" verify run.yaml --torch --keep kept >out 2>err || fail "--keep: $(cat out err)"
sed -i 's/^hyper weight_decay .*/hyper weight_decay 0.2/' kept/torch/index.txt
"$python" kept/torch/with_torch.py kept/torch >changed || fail "the script failed: $(cat changed)"
grep -q '"first": "step [0-9]*: after STEP: ' changed || fail "another weight decay is not found: $(cat changed)"
exit $bad
