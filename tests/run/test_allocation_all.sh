#!/bin/sh
# test: label=full timeout=600 isa=any
# Many more requests for memory of tests/run/test_allocation.c and test_allocation_ranks.c than these try by themselves.
export PST_ALLOC_ALL=1
"$(dirname "$PENSTOCK")/test_run_allocation" && exec "$(dirname "$PENSTOCK")/test_run_allocation_ranks"
