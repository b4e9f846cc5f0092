#!/bin/sh
# test: label=full timeout=120
# Our schedules pass PyTorch's own validator and its simulator of messages, and PyTorch's schedules pass our checker.
# Skips where torch cannot be imported.
set -eu
python3 -c 'import torch.distributed.pipelining' 2>/dev/null || { echo "skipped: no PyTorch here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for p in 2 4; do
    for m in 8 16; do
        "$PENSTOCK" simulate --schedule all -p $p -m $m | awk 'NR > 1 { print $1 }' >"$work/names"
        while read -r schedule; do
            "$PENSTOCK" simulate --schedule "$schedule" -p $p -m $m --csv "$work/$schedule-$p-$m.csv" >/dev/null
        done <"$work/names"
    done
done
python3 "$SOURCE_DIR/tests/parity/schedules.py" "$work"
for file in "$work"/torch-*.csv; do
    "$PENSTOCK" simulate --schedule custom --csv "$file" >"$work/out" || { echo "$file is refused"; exit 1; }
    head -n 3 "$work/out"
done
