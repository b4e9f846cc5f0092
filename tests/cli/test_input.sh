#!/bin/sh
# test: label=quick timeout=60
# Every kind of wrong input to train and its neighbours: the exit status, and one line that says what and where.
unset PST_SEED
. "$(dirname "$0")/../script.sh"

# expect STATUS PATTERN COMMAND...: exit status, and exactly one line on stderr, which matches.
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$@" >out 2>err </dev/null || rc=$?
    if [ $rc != "$status" ] || ! grep -q -e "^penstock: .*$pattern" err || [ "$(wc -l <err)" != 1 ]; then
        echo "FAILED: $*"
        echo "  expected status $status and one line with '$pattern'; got status $rc"
        sed 's/^/  out: /' out | head -n 3
        sed 's/^/  err: /' err | head -n 5
        bad=1
    fi
}

cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20}
data: {kind: text, paths: [text.txt]}
train: {steps: 2, batch: 6, micro_batch: 2, warmup: 1}
parallel: {threads: 1}
END
i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
train() { status=$1 pattern=$2; shift 2; expect "$status" "$pattern" "$PENSTOCK" train run.yaml -q -n 2 "$@"; }

# keys and values
train 2 "'lrr' in train; did you mean 'lr'" train.lrr=1
train 2 'steps=abc.*a whole number' train.steps=abc
train 2 'steps=0.*from 1 to 1000000000000,' train.steps=0
train 2 'steps=1.5.*whole number' train.steps=1.5
train 2 'dropout=1.*< 1' model.dropout=1
train 2 'attention_dropout=-1.*>= 0' model.attention_dropout=-1
train 2 'lr=nan.*> 0' train.lr=nan
train 2 'lr=inf.*> 0' train.lr=inf
train 2 'lr=1e999.*> 0' train.lr=1e999
train 2 'clip=-1' train.clip=-1
train 2 'batch=99999999999999999999' train.batch=99999999999999999999
train 2 'no.*=\|key=value\|expected' nonsense
printf 'model: {kind: gpt}\ndata: {paths: [x]}\ntrain: {step: 3}\n' >key.yaml
expect 2 "key.yaml:3:9: unknown key 'step' in train; did you mean 'steps'" "$PENSTOCK" train key.yaml
printf 'model: {kind: gpt}\ndata: {paths: [x]}\ntrain: [3]\n' >list.yaml
expect 2 'list.yaml:3:' "$PENSTOCK" train list.yaml
printf 'model: {kind: gpt\n' >open.yaml
expect 2 'open.yaml:' "$PENSTOCK" train open.yaml
{ printf 'nodes: '; head -c 200000 /dev/zero | tr '\0' '['; } >deep.yaml
for reader in "train deep.yaml" "plan run.yaml --cluster deep.yaml" "plan run.yaml --profile deep.yaml" "simulate deep.yaml" \
    "profile deep.yaml deep.yaml -o p.yaml"; do
    # shellcheck disable=SC2086
    expect 2 'deep.yaml:1:.* nested at most 64 deep' "$PENSTOCK" $reader
done
{ echo nodes:; seq 80000 | sed 's/.*/- \&&/'; } >names.yaml
expect 2 'names.yaml:.*1024 anchors' "$PENSTOCK" plan run.yaml --cluster names.yaml
printf 'data: {paths: [x]}\n' >nomodel.yaml
expect 2 'model.kind is missing' "$PENSTOCK" train nomodel.yaml
expect 2 'nosuch.yaml' "$PENSTOCK" train nosuch.yaml
expect 2 '' "$PENSTOCK" train .

# contradictions
train 2 'heads is 5.*divide.*channels 24' model.heads=5
train 2 '40 ranks are more than the 22 operators' -n 40
train 2 '(7) is larger than train.batch (6)' train.micro_batch=7
train 2 'context of 5000' model.context=5000
train 2 '2 ranks, but parallel.pipeline is 3' parallel.pipeline=3
train 2 '4 tensor ranks are too many: h.0.attn has 2 heads' -n 4 parallel.tensor=4
train 2 '2 ranks; expected a multiple of parallel.data x parallel.tensor, 1 x 3' parallel.tensor=3
train 2 'vocabulary is 100.*256' model.vocabulary=100
train 2 "forward' computes no gradients" parallel.schedule=forward
# no contradiction: said once, whatever the number of ranks
"$PENSTOCK" train run.yaml -n 2 train.warmup=5 name=warm >out 2>err </dev/null &&
    grep -q 'warning: train.warmup is 5, but train.steps is only 2: the learning rate rises until the last step' err &&
    [ "$(wc -l <err)" = 1 ] || { echo "FAILED: warmup=5: $(cat out err)"; bad=1; }
train 2 '--ranks' -n 0
train 2 '--ranks' -n -3
train 2 '--ranks.*1024' -n 1025
train 2 'pipeline=1025.*from 0 to 1024' parallel.pipeline=1025

# names
train 2 'did you mean "1f1b"' parallel.schedule=1f1bb
train 2 "did you mean 'cpu'" parallel.device=cpuu
train 2 "did you mean 'ucx'" parallel.transport=ucxx
train 2 "did you mean 'gpt'" model.kind=gptt
train 2 "override 'model.preset=nanoo': .*no preset \"nanoo\"" model.preset=nanoo
printf 'model: {kind: gpt}\ndata: {kind: text, paths: [text.txt]}\n' >bare.yaml
expect 2 'bare.yaml:1:[0-9]*: model.kind gpt: set model.preset (nano.*), or layers, heads' "$PENSTOCK" train bare.yaml
expect 2 "override 'model.kind=mlp': model.kind mlp: set model.preset (tiny), or layers, channels and context$" \
    "$PENSTOCK" train bare.yaml model.kind=mlp
expect 2 'model.kind resnet: set model.preset (resnet20.*), or layers and channels$' \
    "$PENSTOCK" train bare.yaml model.kind=resnet data.kind=cifar10
expect 2 'model.heads is 0; set model.heads or model.preset' "$PENSTOCK" train bare.yaml layers=2 channels=8 context=8
expect 2 'model.weights: nowhere: No such file' "$PENSTOCK" train bare.yaml model.weights=nowhere
train 2 'stop.patience counts evaluations, but data.validation is 0' stop.patience=3 eval.every=2 data.validation=0

# keys that the model or the data does not read
train 2 'run.yaml:2:[0-9]*: model.heads is not used by model.kind mlp, which uses preset, .*vocabulary$' model.kind=mlp
train 2 "'model.dropout=0.1': model.dropout is not used by model.kind resnet" \
    model.kind=resnet heads=0 context=0 model.dropout=0.1
sed 's/train: {/train: {momentum: 0.5, /' run.yaml >momentum.yaml
"$PENSTOCK" train momentum.yaml -n 1 steps=1 name=momentum 2>err >out &&
    grep -q 'train.momentum has no effect: train.optimizer is adamw$' err || fail "no word about the momentum: $(cat err)"
"$PENSTOCK" train run.yaml -n 1 steps=1 name=plain >out 2>err && [ ! -s err ] || fail "a plain run: $(cat err)"
"$PENSTOCK" train --resume runs/plain steps=2 >out 2>err && ! grep -q 'not read' err || fail "a plain run goes on: $(cat err)"
train 2 "did you mean 'adamw'" train.optimizer=adamx
train 2 'name' name=../x

# data
train 2 'cannot read nosuch.txt' data.paths=nosuch.txt
train 2 "no file matches .nosuch/" 'data.paths=nosuch/*.c'
: >empty.txt
train 2 'empty.txt.*empty' data.paths=empty.txt
echo short >short.txt
train 2 'short.txt: 6 bytes.*too few for a context of 20' data.paths=short.txt
mkdir nothing
train 2 'nothing' data.paths=nothing
if ! cat /proc/1/mem >/dev/null 2>&1 && [ -e /proc/1/mem ]; then train 2 '' data.paths=/proc/1/mem; fi
if [ "$(id -u)" != 0 ]; then
    cp text.txt secret.txt; chmod 0 secret.txt
    train 2 'secret.txt: Permission' data.paths=secret.txt
fi

# memory: the advice fits
train 4 'rank 0 needs .* but the limit is 290.0 KiB; -n [0-9]* would fit' parallel.memory=290K
rc=0
"$PENSTOCK" train run.yaml -q parallel.memory=290K -n "$(sed 's/.*-n \([0-9]*\) would fit.*/\1/' err)" >out 2>err ||
    rc=$?
[ $rc = 0 ] || { echo "FAILED: the advice does not fit: status $rc"; sed 's/^/  err: /' err; bad=1; }
train 4 'no other schedule.*would fit' parallel.memory=1K
rm -rf runs

# a run to damage
"$PENSTOCK" train run.yaml -q || { echo "FAILED: train"; exit 1; }
checkpoint=runs/run/checkpoints/step-00000002
"$PENSTOCK" convert runs/run hf || bad=1

# a folder whose name is not UTF-8: every line is in metrics.jsonl all the same
odd=$(printf 'odd\377')
"$PENSTOCK" train run.yaml -q --runs "$odd" >out 2>err || { echo "FAILED: train --runs odd"; bad=1; }
if [ -s err ] || ! grep -q '"event":"checkpoint".*"path":"odd?/run/' "$odd/run/metrics.jsonl"; then
    echo "FAILED: no checkpoint in the metrics of a folder that is not UTF-8"; sed 's/^/  err: /' err; bad=1
fi
rm -rf "$odd"

# going on with something else
resume() { status=$1 pattern=$2; shift 2; train "$status" "$pattern" --resume runs/run "$@"; }
resume 2 'of different size' model.channels=32
resume 2 'model.heads 2, not 4' model.heads=4
resume 2 'model.activation' model.activation=relu
resume 2 'no tensor\|of different size' model.layers=3
resume 2 'train.batch 6, not 12' train.batch=12
resume 2 'optimizer adamw, not sgd' train.optimizer=sgd
resume 2 'different data' data.validation=0.3
resume 2 'different data' data.paths=run.yaml
train 2 'nosuch' --resume nosuch
expect 2 '--resume runs/none: the folder does not exist; expected the folder of a run' "$PENSTOCK" train --resume runs/none
mkdir -p runs/empty
expect 2 '--resume runs/empty: no run.yaml there' "$PENSTOCK" train --resume runs/empty
sed 's/parallel: {/&schedule: nosuch, /' run.yaml >schedule.yaml
expect 2 'schedule.yaml:5:22: unknown schedule "nosuch"' "$PENSTOCK" train schedule.yaml -n 2
expect 2 'schedule.yaml:5:22: unknown schedule "nosuch"' "$PENSTOCK" plan schedule.yaml -n 2
train 2 "override 'schedule=1f1bb': unknown schedule .1f1bb.; did you mean .1f1b." schedule=1f1bb
if ! "$PENSTOCK" train run.yaml -n 2 data=2 batch=13 micro_batch=0 steps=1 warmup=0 name=odd >out 2>err ||
    ! grep -q 'cannot be divided evenly among 2 replicas: some have 7, the others have 6' err; then
    echo "FAILED: 13 micro-batches for 2 replicas: $(cat err)"
    bad=1
fi
train 2 "resume ''" --resume ''
train 2 'no complete checkpoint\|no checkpoint' --resume nothing
grep -q 'channels: 24' runs/run/run.yaml || { echo "FAILED: a refused resume has changed run.yaml"; bad=1; }

# safetensors: missing, foreign, truncated, corrupt, absurd
train 2 'nosuch.safetensors' model.weights=nosuch.safetensors
train 2 'not a safetensors file' model.weights=text.txt
head -c 3000 hf/model.safetensors >truncated.safetensors
train 2 'truncated' model.weights=truncated.safetensors
printf '\377\377\377\377\377\377\377\177{}' >huge.safetensors
train 2 'huge.safetensors: .*header needs 9223372036854775807 bytes' model.weights=huge.safetensors
printf '\100\0\0\0\0\0\0\0%-64s' '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}' >shape.safetensors
train 2 'shape.safetensors' model.weights=shape.safetensors
printf '\100\0\0\0\0\0\0\0%-64s1234' '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' >foreign.safetensors
train 2 'tensor a is not part of the model' model.weights=foreign.safetensors
train 2 'the model needs' model.weights=hf model.channels=32

# other models in Hugging Face's format
cat >bert.yaml <<END
model: {kind: bert, layers: 1, heads: 1, channels: 8, context: 16}
data: {kind: lines, paths: [text.txt]}
train: {steps: 1, batch: 2, warmup: 0}
END
"$PENSTOCK" train bert.yaml -q -n 1 || fail "train bert.yaml"
"$PENSTOCK" convert runs/bert bert_hf || fail "convert bert"
"$PENSTOCK" inspect bert_hf | grep -q '^Hugging Face BERT: 1 layers, 1 heads, 8 channels' || fail "inspect bert_hf"
"$PENSTOCK" train bert.yaml -q -n 1 name=again model.weights=bert_hf/model.safetensors || fail "train with weights of bert"
expect 2 'a model of kind bert cannot continue text' "$PENSTOCK" generate bert_hf
expect 2 'a model of kind bert cannot continue text' "$PENSTOCK" generate runs/bert
expect 2 'a model of kind gpt, but model.kind is bert' "$PENSTOCK" train bert.yaml model.weights=hf
"$PENSTOCK" train bert.yaml -q -n 1 name=untyped model.token_types=0 || fail "train bert without types"
expect 2 'model.token_types is 0' "$PENSTOCK" convert runs/untyped untyped_hf
[ ! -e untyped_hf ] || fail "a refused conversion has made a folder"
"$PENSTOCK" train bare.yaml -q -n 1 model.kind=mlp preset=tiny steps=1 name=mlp || fail "train mlp"
expect 2 'step-00000001: model.kind is mlp; penstock convert supports gpt' "$PENSTOCK" convert runs/mlp mlp_hf

cp -r runs/run damaged
shard=$(ls damaged/checkpoints/step-00000002/*.safetensors)
printf XXXX | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 1000)) conv=notrunc 2>/dev/null
train 2 'damaged.*its hash is' --resume damaged
cp -r runs/run short
truncate -s 9000 short/checkpoints/step-00000002/*.safetensors
train 2 'truncated' --resume short
expect 2 'truncated' "$PENSTOCK" generate short
cp -r runs/run edited
sed -i 's/"step": *2/"step": 3/' edited/checkpoints/step-00000002/index.json
train 2 'damaged or was edited' --resume edited
expect 2 'damaged or was edited' "$PENSTOCK" generate edited
expect 2 'damaged or was edited' "$PENSTOCK" inspect edited
expect 2 'damaged or was edited' "$PENSTOCK" convert edited x
expect 2 'neither a run' "$PENSTOCK" generate run.yaml
expect 2 'no complete checkpoint' "$PENSTOCK" generate nothing
mkdir foreign
echo '{"model_type": "t5"}' >foreign/config.json
expect 2 'supported are gpt2' "$PENSTOCK" generate foreign
expect 2 'truncated' "$PENSTOCK" inspect truncated.safetensors
expect 2 'huge.safetensors' "$PENSTOCK" inspect huge.safetensors
expect 2 "--show 'foo': expected graph" "$PENSTOCK" inspect run.yaml --show foo
expect 2 '40 ranks' "$PENSTOCK" inspect run.yaml -n 40

# training that diverges
train 2 'diverged at step 2.*lower train.lr' train.lr=1e30 train.warmup=0 train.clip=0
train 2 'diverged' train.lr=1e38 train.warmup=0 train.steps=1 data.validation=0
"$PENSTOCK" train run.yaml -n 1 lr=1e30 warmup=0 clip=0 non_finite=skip steps=3 log_every=1 name=skip >out 2>err
grep -q 'of 3 steps were skipped' err && grep -q 'loss nan' out && ! grep -q -e -nan out ||
    { echo "FAILED: skipped steps: $(cat out err)"; bad=1; }
[ ! -e runs/run-2/checkpoints ] || { echo "FAILED: weights that are no numbers were saved"; bad=1; }

# places that cannot be written: the user's path, or a full disk, of which nothing is left behind
train 2 "cannot create the run's folder in text.txt: Not a directory; use --runs DIR to choose another folder" --runs text.txt
train 2 'cannot create the folder /proc/x: .*; use --runs DIR to choose another folder' --runs /proc/x
train 2 'expected the path of a folder' --runs ''
expect 2 'cannot create folder text.txt: Not a directory' "$PENSTOCK" convert runs/run text.txt
expect 2 'cannot create folder /proc/x: ' "$PENSTOCK" convert runs/run /proc/x
expect 2 'cannot write /proc/x.svg: ' "$PENSTOCK" simulate runs/run/plan.yaml --svg /proc/x.svg
expect 2 'cannot write /proc/x.html: ' "$PENSTOCK" report runs/run -o /proc/x.html
full() { # COMMAND...: no file may grow
    rc=0
    # sanitizers grow files of their own before main() ignores the signal
    said=$([ -z "${PST_SANITIZE:-}" ] || trap '' XFSZ; ulimit -f 0 &&
        exec "$PENSTOCK" "$@" 2>&1 >/dev/null </dev/null) || rc=$?
    echo "$said" >&2
    return $rc
}
expect 4 'file size: the limit (ulimit -f) is 0 KiB, this run needs about ' full train run.yaml --runs full name=new
expect 4 'cannot write full-hf/.tmp-model: File too large' full convert runs/run full-hf
for file in t.json here.yaml; do echo before >$file; done
expect 4 'cannot write .*t.json.new: File too large' full simulate runs/run/plan.yaml --trace t.json
expect 4 'cannot write .*here.yaml.new: File too large' full doctor --cluster-out here.yaml
grep -qx before t.json && grep -qx before here.yaml ||
    { echo 'FAILED: a file that could not be replaced is gone'; bad=1; }
expect 4 'cannot write man/man/man1/penstock.1: File too large' full help --write man
for left in full/new full-hf t.json.new here.yaml.new man; do
    [ ! -e $left ] || { echo "FAILED: $left is left behind on a full disk"; bad=1; }
done
if [ -e /dev/full ]; then
    expect 4 'cannot write /dev/full: No space' "$PENSTOCK" simulate runs/run/plan.yaml --svg /dev/full
    rc=0
    "$PENSTOCK" train run.yaml -n 1 log_every=1 name=unheard 2>err >/dev/full || rc=$?
    [ $rc = 4 ] && [ "$(grep -c 'No space left on device); training continues' err)" = 1 ] &&
        [ -e runs/unheard/checkpoints/step-00000002 ] ||
        { echo "FAILED: full standard output while training: status $rc: $(cat err)"; bad=1; }
    [ -c /dev/full ] || { echo "FAILED: /dev/full is no device any more"; bad=1; }
fi
exit $bad
