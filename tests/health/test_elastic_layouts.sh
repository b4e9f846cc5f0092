#!/bin/sh
# test: label=full timeout=120 isa=any
# Elastic runs of many layouts and optimizers, of which a rank is killed, or whose number of ranks changes: the same
# weights, each step once (elastic.py).
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3 here"
python3 "$SOURCE_DIR/tests/health/elastic.py" layouts
