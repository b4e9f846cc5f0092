#!/bin/sh
# test: label=soak timeout=3600 serial
# PST_SOAK (200) random signals at random moments to runs of every launcher, of torchrun a stand-in (signals.py);
# PST_SEED repeats a soak.
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3 here"; exit 77; }
python3 "$SOURCE_DIR/tests/health/signals.py" soak "${PST_SOAK:-200}" ${PST_SEED:+"$PST_SEED"}
