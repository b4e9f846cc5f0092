#!/bin/sh
# test: label=soak timeout=3600 serial
# A hundred of every fault: how many culprits are named, and how soon.
exec env PST_SOAK=100 "$(dirname "$PENSTOCK")/test_health_hang"
