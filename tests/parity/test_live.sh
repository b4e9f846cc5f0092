#!/bin/sh
# test: label=full timeout=300
# Parity with PyTorch, live: the script trains from the fixture's weights on this machine's torch, and the test compares
# with what it wrote. Skips where torch cannot be imported.
set -eu
python3 -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fixture=$SOURCE_DIR/tests/parity/fixture
cp "$fixture/model.safetensors" "$fixture/config.json" "$fixture/batches.i32" "$folder/"
python3 "$SOURCE_DIR/tests/parity/make_fixture.py" run --weights "$fixture/model.safetensors" \
    --batches "$fixture/batches.i32" \
    --heads 2 --batch 4 --context 16 --out "$folder"
PENSTOCK_PARITY_FIXTURE=$folder "$(dirname "$PENSTOCK")/test_engine_parity"
