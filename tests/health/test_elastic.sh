#!/bin/sh
# test: label=full timeout=120 isa=any
# Elastic runs whose ranks are killed or stopped at known moments: the same weights, each step once (elastic.py).
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3 here"
python3 "$SOURCE_DIR/tests/health/elastic.py" moments
