#!/bin/sh
# test: label=full timeout=120 isa=any
# Live: our schedules pass PyTorch's own validator and its simulator of messages, and PyTorch's schedules pass our
# checker. What that was recorded of is tested without PyTorch (test_recorded.sh).
set -eu
# shellcheck source=tests/parity/torch.sh
. "$(dirname "$0")/torch.sh"
need_torch .distributed.pipelining
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
our_schedules "$work"
for p in 2 4; do
    for m in 8 16; do
        "$PENSTOCK" simulate --schedule solved -p $p -m $m --csv "$work/solved-$p-$m.csv" >/dev/null
    done
done
"$python" "$SOURCE_DIR/tests/parity/schedules.py" "$work"
for file in "$work"/torch-*.csv; do
    "$PENSTOCK" simulate --schedule custom --csv "$file" >"$work/out" || { echo "$file is refused"; exit 1; }
    head -n 3 "$work/out"
done
