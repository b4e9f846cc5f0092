#!/bin/sh
# test: label=full timeout=600
# `penstock verify --torch`: PyTorch takes the same step with every optimizer, and computes the same loss with label
# smoothing and z-loss, and the same gradients of adapters beside frozen parameters. LAMB and Muon are written out in the
# script, in fp32.
. "$(dirname "$0")/../script.sh"
# shellcheck source=tests/parity/torch.sh
. "$SOURCE_DIR/tests/parity/torch.sh"
need_torch ''
PST_TORCH_PYTHON=$python
export PST_TORCH_PYTHON
write_run 2
cat >run.yaml <<END_OF_RUN
model: {kind: mlp, preset: tiny}
data: {kind: text, paths: [text.txt]}
train: {batch: 4, micro_batch: 2, lr: 1.0e-2}
END_OF_RUN

# agrees ARGUMENT...: with PyTorch
agrees() {
    "$PENSTOCK" verify run.yaml "$@" --torch >out 2>err </dev/null || fail "verify $*: $(cat out err)"
    grep -q "^passed  one rank, against PyTorch" out || fail "verify $*: no comparison with PyTorch: $(cat out)"
}
agrees train.optimizer=sgd train.nesterov=true
agrees train.optimizer=adam train.label_smoothing=0.1 train.z_loss=1e-3 'train.decay_params=["*", "!*.bias"]'
agrees train.optimizer=lamb
agrees train.optimizer=muon
for optimizer in adamw sgd lamb muon; do agrees train.optimizer=$optimizer train.optimizer_state=bf16; done
agrees 'adapt.on=["*"]' adapt.rank=2 'train.freeze=["!*.bias"]'
write_run 2
agrees adapt.on=[attention,mlp] adapt.rank=3 adapt.alpha=7 'train.freeze=["!ln_f.*"]'
agrees 'train.freeze=["w?e.*","h.0.*","h.1.attn.c_attn.weight"]'
exit $bad
