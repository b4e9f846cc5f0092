#!/bin/sh
# test: label=full timeout=120
# The dynamic loss scale of a fp16 run beside PyTorch's GradScaler: the same scale before every step, the same steps
# skipped. Skips where torch cannot be imported.
set -eu
python3 -c 'import torch.amp; torch.amp.GradScaler("cpu")' 2>/dev/null || { echo "skipped: no PyTorch here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/run.yaml" <<YAML
model: {kind: gpt, layers: 2, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: ["$SOURCE_DIR/src/base/*.c"], validation: 0}
train: {steps: 40, batch: 8, micro_batch: 2, precision: fp16, loss_scale_start: 16777216, loss_scale_interval: 4}
checkpoint: {every: 0}
YAML
"$PENSTOCK" train "$folder/run.yaml" --runs "$folder" -q -n 2
python3 "$SOURCE_DIR/tests/parity/scaler.py" "$folder/run/metrics.jsonl" 16777216 4 0.5
