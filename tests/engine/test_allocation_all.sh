#!/bin/sh
# test: label=full timeout=600
# All requests for memory of tests/engine/test_allocation.c, not a share of them, and more of test_allocation_ranks.c's.
export PST_ALLOC_ALL=1
"$(dirname "$PENSTOCK")/test_engine_allocation" && exec "$(dirname "$PENSTOCK")/test_engine_allocation_ranks"
