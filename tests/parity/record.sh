#!/bin/sh
# Records in fixture/ what PyTorch says, for the tests that run without it (test_recorded.sh, tests/run/test_fp16.c):
# the schedules of ours that its validator passes, as checksums; its own schedules; scales of its GradScaler.
#
#     PENSTOCK=build/release/penstock [PST_TORCH_PYTHON=PYTHON] tests/parity/record.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/parity/torch.sh
. "$here/torch.sh"
: "${PENSTOCK:?names the program}"
need_torch .distributed.pipelining
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
our_schedules "$work"
# shellcheck disable=SC2046 # names without blanks
sums "$work" $(LC_ALL=C ls "$work") >"$work/validated"
mv "$work/validated" "$work.validated"
"$python" "$here/schedules.py" "$work"
mkdir -p "$here/fixture/schedules"
mv "$work.validated" "$here/fixture/schedules/validated.txt"
mv "$work"/torch-*.csv "$here/fixture/schedules/"
"$python" "$here/scaler.py" record >"$here/fixture/scaler.txt"
