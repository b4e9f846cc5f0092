#!/bin/sh
# test: label=quick timeout=60
# Replicas that share out the step read of Hugging Face weights what they step: the same bits as where all read everything.
. "$(dirname "$0")/../script.sh"

i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 1, heads: 2, channels: 384, context: 8, vocabulary: 1500}
data: {kind: text, paths: [text.txt], validation: 0}
train: {steps: 1, batch: 2, micro_batch: 1, warmup: 0, lr: 1.0e-3}
parallel: {transport: self, threads: 1}
checkpoint: {every: 1}
END
"$PENSTOCK" train run.yaml -q -n 1 || exit 1
"$PENSTOCK" convert runs/run hf || exit 1
precisions=fp32
has_bf16 'replicas in bf16' && precisions="fp32 bf16"
for precision in $precisions; do
    for zero in 0 1 2; do
        "$PENSTOCK" train run.yaml -q -n 2 --runs $precision-$zero name=z parallel.data=2 parallel.zero=$zero \
            train.precision=$precision model.weights=hf checkpoint.every=0 || exit 1
        sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' $precision-$zero/z/metrics.jsonl >$precision-$zero/hash
    done
    [ -s $precision-0/hash ] || fail "$precision: no hash"
    cmp $precision-0/hash $precision-1/hash && cmp $precision-0/hash $precision-2/hash ||
        fail "$precision: other weights where the step is shared out"
done
[ ! -e bf16-0/hash ] || ! cmp -s fp32-0/hash bf16-0/hash || fail "bf16 is fp32"
exit $bad
