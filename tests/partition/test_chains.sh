#!/bin/sh
# test: label=quick timeout=60
# Workloads of other planners' formats that are made up here: chains whose best split chains.py finds by trying all.
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
python3 -B "$SOURCE_DIR/tests/partition/chains.py" "$PENSTOCK" "$folder" "${PST_SEED:-1}" 25 >out 2>&1 || fail "$(cat out)"
cat out
exit $bad
