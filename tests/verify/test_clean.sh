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
for k in $(seq "$seed" $((seed + ${PST_SOAK:-10} - 1))); do
    python3 -B "$SOURCE_DIR/tests/verify/random_run.py" "$k" ${bf16:+"$bf16"} >keys
    set --
    while IFS= read -r key; do set -- "$@" "$key"; done <keys
    kind=$1 ranks=$2
    shift 2
    "$PENSTOCK" verify "$kind.yaml" -n "$ranks" "$@" >out 2>err </dev/null ||
        fail "seed $k: verify $kind.yaml -n $ranks $*: $(cat out err)"
done
exit $bad
