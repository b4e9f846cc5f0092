#!/bin/sh
# test: label=quick timeout=60
# What --resume says: other settings, no run file, an incomplete and a damaged newest checkpoint; and a stopped run.
set -u
unset PST_SEED
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0

# expect STATUS PATTERN ARGUMENT...: exit status of train, and a line on stdout or stderr that matches.
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    timeout 20 "$PENSTOCK" train "$@" >out 2>&1 </dev/null || rc=$?
    if [ $rc != "$status" ] || ! grep -q -e "$pattern" out; then
        echo "FAILED: train $*: expected status $status and '$pattern'; got status $rc"
        sed 's/^/  /' out | head -n 8
        bad=1
    fi
}

cat >run.yaml <<END
name: other
model: {kind: mlp, layers: 2, channels: 8, context: 8}
data: {kind: text, paths: [text.txt]}
train: {steps: 4, batch: 2, micro_batch: 1, warmup: 1, lr: 1.0e-3}
parallel: {threads: 1}
checkpoint: {every: 2}
END
i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
expect 0 '^runs/other: mlp' run.yaml
mv runs/other runs/k1
expect 0 "^settings differ from those of the checkpoint: train.steps 4 -> 6, train.lr 0.001 -> 0.0005$" \
    run.yaml --resume runs/k1 steps=6 lr=5e-4 log_every=3
expect 0 '^runs/k1: mlp' --resume runs/k1
grep -q 'settings differ' out && { echo "FAILED: its own settings differ"; bad=1; }
# as an earlier version has written it: its evaluations stood in train
cp -r runs/k1 runs/old
sed -e '/^eval:$/,/^  sets:/d' -e 's/^train:$/train:\n  validate_every: 1/' runs/k1/run.yaml >runs/old/run.yaml
grep -q '^  validate_every: 1$' runs/old/run.yaml && ! grep -q '^eval:' runs/old/run.yaml || bad=1
expect 0 '^validation after step 7:' --resume runs/old steps=8
grep -q '^  every: 1$' runs/old/run.yaml && ! grep -q validate_every runs/old/run.yaml ||
    { echo "FAILED: the former name is not written by its new one"; bad=1; }
expect 0 'done after step 8' --resume runs/k1 steps=8
expect 0 '^warning: no steps left to train' --resume runs/k1
for n in 1 2; do # asked for
    expect 0 '^\(\[0\] \)\{0,1\}no steps left to train: the checkpoint is of step 8' --resume runs/k1 -n $n eval.tokens=all
    expect 0 '^\(\[0\] \)\{0,1\}no steps left to train' --resume runs/k1 -n $n eval.sets.more=text.txt
done
expect 2 'too few operands'
expect 2 'nosuch.yaml' nosuch.yaml --resume runs/k1

expect 2 'is from a different model: this model has no tensor .*$' --resume runs/k1 layers=1 steps=10

# a warm-up is of all the steps that there are now, and one that was cut is said where it is asked for
expect 0 'done after step 5' run.yaml name=share steps=5 warmup=20%
expect 0 'done after step 40' --resume runs/share steps=40
grep -q '"step":6,.*"lr":0.0007\(5\|49999\)[0-9]*,' runs/share/metrics.jsonl ||
    { echo "FAILED: the warm-up is not 20% of 40 steps:"; grep '"step":6,' runs/share/metrics.jsonl; bad=1; }
expect 0 '^warning: train.warmup is 20, but train.steps is only 2' run.yaml name=cut steps=2 warmup=20
expect 0 'done after step 4' --resume runs/cut steps=4
grep -q 'warning: train.warmup' out && { echo "FAILED: a warm-up that was cut is said again"; bad=1; }
expect 0 '^warning: train.warmup is 9, but train.steps is only 5' --resume runs/cut steps=5 warmup=9

# the copy of a run file has the keys of all codecs
set -- -n 2 parallel.data=2 parallel.compress.links=all parallel.compress.min_bytes=0
expect 0 'warning: parallel.compress.threshold has no effect: parallel.compress.up is int8$' \
    run.yaml name=other-codec "$@" parallel.compress.up=int8 parallel.compress.threshold=0.1
for codec in int8 2bit; do
    expect 0 'done after step 4' run.yaml name=$codec "$@" parallel.compress.up=$codec parallel.compress.down=int4
    expect 0 'settings differ.*: train.steps 4 -> 6, parallel.compress.after 0 -> 2$' \
        --resume runs/$codec steps=6 parallel.compress.after=2
    grep 'has no effect' out && bad=1
    "$PENSTOCK" simulate runs/$codec/plan.yaml >out 2>&1 || { echo "FAILED: plan of $codec: $(cat out)"; bad=1; }
done
for rate in 'rank=64' 'min_rate=1000000'; do
    expect 0 'warning: parallel.compress packs nothing: with parallel.compress.rank=.* lower rank or min_rate$' \
        run.yaml name=products "$@" parallel.compress.up=powersgd parallel.compress.$rate
done
expect 0 'from step 3 on$' -n 2 run.yaml name=packed-stages parallel.pipeline=2 parallel.compress.stages=int8 \
    parallel.compress.links=all parallel.compress.after=2
grep 'has no effect' out && bad=1
expect 0 'warning: parallel.compress.block has no effect: parallel.compress.up is powersgd and parallel.compress.down is none and' \
    run.yaml name=products "$@" parallel.compress.up=powersgd parallel.compress.block=64
expect 0 'parallel.local has no effect without parallel.data' run.yaml name=island parallel.local.steps=2
expect 0 'parallel.local.compress has no effect: with these keys' -n 2 run.yaml name=sums parallel.data=2 parallel.pipeline=1 \
    train.optimizer=sgd train.clip=0 parallel.local.steps=1 \
    parallel.local.compress=int8 parallel.local.outer.lr=1 parallel.local.outer.momentum=0
expect 2 'elastic.max is set, but the run is not elastic; add --elastic' run.yaml name=most elastic.max=2
set --

# gradients that come too late
expect 0 'warning: parallel.staleness is 4, so none of the 4 steps of this run changes' \
    run.yaml name=late parallel.update=delayed parallel.staleness=4
expect 0 'done after step 6' --resume runs/late steps=6
grep 'changes the weights' out && { echo "FAILED: the pending gradients come in time"; bad=1; }
[ "$(grep -c '^updates: ' out)" = 1 ] || { echo "FAILED: the line about updates"; bad=1; }

rm runs/k1/checkpoints/step-00000008/index.json
expect 0 'step-00000008 is incomplete (no index.json); resuming from step-00000006$' --resume runs/k1 steps=9
printf X | dd of=runs/k1/checkpoints/step-00000009/index.json bs=1 seek=40 conv=notrunc 2>/dev/null
expect 2 'index.json.*; resume from the previous checkpoint with --resume runs/k1/checkpoints/step-00000008$' --resume runs/k1
expect 0 'the resumed run is written to runs/other$' --resume runs/k1/checkpoints/step-00000006

# asked to stop: said at once, by one rank, and no success
for n in 1 2; do
    "$PENSTOCK" train run.yaml --runs "stop$n" -n $n steps=1000000 >out 2>&1 </dev/null &
    i=0; while [ $i -lt 200 ] && ! grep -qs loss stop$n/other/metrics.jsonl; do sleep 0.1; i=$((i + 1)); done
    kill -TERM $!
    wait $!
    rc=$?
    [ $rc = 143 ] || { echo "FAILED: stopping $n ranks: status $rc, not 143"; bad=1; }
    [ "$(grep -c '^stopping after this step' out)" = 1 ] && grep -q '^stopped after step' out ||
        { echo "FAILED: what $n ranks say when stopped:"; tail -n 5 out; bad=1; }
done
exit $bad
