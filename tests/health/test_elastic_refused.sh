#!/bin/sh
# test: isa=any
# What elastic runs do not go with is refused before ranks start, with what to change.
. "$(dirname "$0")/../script.sh"
write_run 2

# refused PATTERN ARGUMENT...
refused() {
    pattern=$1
    shift
    rc=0
    "$PENSTOCK" train run.yaml --elastic "$@" >out 2>err </dev/null || rc=$?
    [ $rc = 2 ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] && [ ! -e runs/run ] ||
        fail "train --elastic $*: status $rc, expected 2 and '$pattern': $(cat err)"
}

echo "localhost slots=2" >hosts
refused "with --hostfile; omit one" --hostfile hosts
refused "the run has one process" -n 1
refused "the run has one process" -n 2 parallel.transport=self
refused "parallel.plan, which is for one number of ranks" -n 2 parallel.plan=auto
refused "parallel.device: state in a GPU" -n 2 parallel.device=timed
refused "tensor degree for each stage" -n 3 "parallel.tensor=[1,2]"
refused "parallel.servers" -n 3 parallel.data=2 parallel.servers=1
refused "parallel.update=delayed" -n 2 parallel.data=2 parallel.update=delayed
refused "islands (parallel.local)" -n 2 parallel.data=2 parallel.local.steps=2
refused "parallel.compress.stages=none" -n 2 parallel.compress.stages=int8 parallel.compress.links=all
refused "elastic.min is 2, but the run has 2 ranks" -n 2 elastic.min=2
refused "elastic.max is 2, but the run has 3" -n 3 elastic.max=2
refused "elastic.max is 5, but the run starts with 3" -n 3 elastic.max=5
refused "cannot lose a rank: no number of ranks from 1 (elastic.min) to 1 is a multiple of" -n 2 parallel.data=2
RANK=0 WORLD_SIZE=1 refused "another launcher starts" -n 2
exit $bad
