#!/bin/sh
# test: label=full timeout=240 isa=any
# Signals to runs of every launcher (of torchrun, a stand-in), amid training: exit statuses, and the same weights after
# going on (signals.py).
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3 here"; exit 77; }
python3 "$SOURCE_DIR/tests/health/signals.py" each
