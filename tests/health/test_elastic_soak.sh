#!/bin/sh
# test: label=soak timeout=3600 serial
# PST_SOAK (200) runs of `nano` on four ranks, of which one or two are killed, and whose number changes, at random
# moments (elastic.py); PST_SEED repeats a soak.
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3 here"
python3 "$SOURCE_DIR/tests/health/elastic.py" soak "${PST_SOAK:-200}" ${PST_SEED:+"$PST_SEED"}
