#!/bin/sh
# test: label=full timeout=600
# No false alarm: `penstock verify` passes with random models, layouts, precisions and optimizers
# (random_run.py) that have no bug.
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null || skip "needs python3"
write_run 2
for i in $(seq 400); do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
for kind in gpt mlp; do
    printf 'model: {kind: %s}\ndata: {paths: [text.txt]}\n' $kind >$kind.yaml
done
printf 'model: {kind: bert}\ndata: {kind: lines, paths: [text.txt]}\n' >bert.yaml
printf 'model: {kind: resnet}\ndata: {kind: mnist, paths: ["images*", "labels*"], validation: 0}\n' >resnet.yaml
python3 -B - <<'END_OF_DATA'
import random
r = random.Random(1)
with open("images", "wb") as images, open("labels", "wb") as labels:
    images.write(b"".join(n.to_bytes(4, "big") for n in (0x803, 128, 28, 28)) + r.randbytes(128 * 28 * 28))
    labels.write(b"".join(n.to_bytes(4, "big") for n in (0x801, 128)) + bytes(r.randrange(10) for _ in range(128)))
END_OF_DATA
bf16=
has_bf16 "runs in bf16" && bf16=bf16
seed=${PST_SEED:-1}
echo "seed $seed"
# verified KIND RANKS KEY=VALUE...: `$case` passes
verified() {
    kind=$1 ranks=$2
    shift 2
    "$PENSTOCK" verify "$kind.yaml" -n "$ranks" "$@" >out 2>err </dev/null ||
        fail "$case: verify $kind.yaml -n $ranks $*: $(cat out err)"
}
# In these an element is on the other side of relu's kink with other kernels.
case="a kink"
verified resnet 4 parallel.data=4 train.micro_batch=2 train.batch=8 model.layers=8 model.channels=4 train.seed=478 \
    train.optimizer=sgd train.lr=0.02 train.clip=0 train.warmup=0 train.precision=fp16 parallel.zero=1
verified gpt 2 parallel.data=2 train.micro_batch=2 train.batch=8 model.layers=2 model.channels=32 model.context=16 \
    model.activation=relu model.heads=4 model.dropout=0.2 train.seed=794 train.lr=0.001 train.clip=0 train.warmup=2 \
    train.precision=fp16 train.residual=fp32 train.batch_warmup.from=4 train.batch_warmup.tokens=200
for k in $(seq "$seed" $((seed + ${PST_SOAK:-10} - 1))); do
    python3 -B "$SOURCE_DIR/tests/verify/random_run.py" "$k" ${bf16:+"$bf16"} >keys
    set --
    while IFS= read -r key; do set -- "$@" "$key"; done <keys
    case="seed $k"
    verified "$@"
done
exit $bad
