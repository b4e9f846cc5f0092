#!/bin/sh
# test: label=full timeout=600
# Bugs in operators, sums, the optimizer and messages, injected one at a time by a module (faulty_module.c) and by
# PENSTOCK_FAULT: `penstock verify` finds all of them, and names the place of nearly all.
. "$(dirname "$0")/../script.sh"
PENSTOCK_MODULE=$(dirname "$PENSTOCK")/libpst-faulty.so
export PENSTOCK_MODULE
[ -e "$PENSTOCK_MODULE" ] || fail "there is no $PENSTOCK_MODULE"
command -v python3 >/dev/null || skip "needs python3"
write_run 2
for i in $(seq 400); do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
python3 -B "$SOURCE_DIR/tests/verify/injected.py" || fail "see above"
exit $bad
