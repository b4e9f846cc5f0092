#!/bin/sh
# test: label=full timeout=300
# All requests for memory of tests/engine/test_allocation.c, not a share of them.
PST_ALLOC_ALL=1 exec "$(dirname "$PENSTOCK")/test_engine_allocation"
