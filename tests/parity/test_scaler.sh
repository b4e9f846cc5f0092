#!/bin/sh
# test: label=full timeout=120
# Live: the dynamic loss scale of a fp16 run beside PyTorch's GradScaler: the same scale before every step, the same steps
# skipped. Runs that were recorded are tested without PyTorch (tests/run/test_fp16.c).
set -eu
# shellcheck source=tests/parity/torch.sh
. "$(dirname "$0")/torch.sh"
need_torch '.amp; torch.amp.GradScaler("cpu")'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/run.yaml" <<YAML
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: ["$SOURCE_DIR/src/base/*.c"], validation: 0}
train: {steps: 40, batch: 8, micro_batch: 2, precision: fp16, loss_scale_start: 16777216, loss_scale_interval: 4}
checkpoint: {every: 0}
YAML
"$PENSTOCK" train "$folder/run.yaml" --runs "$folder" -q -n 2
"$python" "$SOURCE_DIR/tests/parity/scaler.py" replay "$folder/run/metrics.jsonl" 16777216 4 0.5
