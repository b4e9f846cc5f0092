#!/bin/sh
# test: label=full timeout=300
# Parity with PyTorch, live: the script trains from the fixture's weights on this machine's torch, and the test compares
# with what it wrote. What was recorded in the fixture is tested without PyTorch (tests/run/test_parity.c).
set -eu
# shellcheck source=tests/parity/torch.sh
. "$(dirname "$0")/torch.sh"
need_torch ''
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fixture=$SOURCE_DIR/tests/parity/fixture
cp "$fixture/model.safetensors" "$fixture/config.json" "$fixture/batches.i32" "$folder/"
"$python" "$SOURCE_DIR/tests/parity/make_fixture.py" run --weights "$fixture/model.safetensors" \
    --batches "$fixture/batches.i32" \
    --heads 2 --batch 4 --context 16 --out "$folder"
PENSTOCK_PARITY_FIXTURE=$folder "$(dirname "$PENSTOCK")/test_run_parity"
