# What script tests begin with: `. "$(dirname "$0")/../script.sh"`. They work in a folder of their own, which goes with
# them, and end with `exit $bad`; one that forgets it, or is skipped after it failed, fails nevertheless.
set -u
bad=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"; [ "$bad" = 0 ] || exit 1' EXIT
cd "$folder" || exit 1

fail() {
    echo "FAILED: $*"
    bad=1
}

# skip WHY: ends a test that cannot run here; ./dev test lists it with its reason. Of a part of a test: a line that begins
# with "skipped: ".
skip() {
    echo "skipped: $*"
    exit 77
}

# has_bf16 WHAT: whether the CPU computes in bf16, and PENSTOCK_ISA does not hide it; says that WHAT is skipped if not
has_bf16() {
    "$PENSTOCK" doctor --json 2>/dev/null | grep -q '^ *"avx512_bf16",\{0,1\}$' && return 0
    echo "skipped: $1: needs AVX512-BF16, which this CPU lacks${PENSTOCK_ISA:+ or PENSTOCK_ISA=$PENSTOCK_ISA hides}"
    return 1
}

# write_run HEADS: run.yaml, a training of two layers and two steps that takes no time, and the text that it learns
write_run() {
    cat >run.yaml <<END_OF_RUN
model: {kind: gpt, layers: 2, heads: $1, channels: 32, context: 16}
data: {paths: [text.txt]}
train: {steps: 2, batch: 8}
checkpoint: {every: 0}
END_OF_RUN
    for i in $(seq 20); do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
}

# use_far: programs find the device of tests/far/far_module.c
use_far() {
    PENSTOCK_MODULE=$(dirname "$PENSTOCK")/libpst-far.so
    export PENSTOCK_MODULE
    [ -e "$PENSTOCK_MODULE" ] || fail "there is no $PENSTOCK_MODULE"
}

# write_measured LAYERS STEPS PARALLEL: run.yaml with the name `run`, whose micro-batches are two of 2, and its text
write_measured() {
    yes "the quick brown fox" | head -n 2000 >text
    cat >run.yaml <<END_OF_RUN
name: run
model: {kind: gpt, layers: $1, heads: 2, channels: 32, context: 16}
data: {kind: text, paths: [text], validation: 0}
train: {steps: $2, batch: 4, micro_batch: 2}
parallel: {threads: 1, $3}
END_OF_RUN
}

# expect_plan STATUS PATTERN ARGUMENT...: what `penstock plan` ends with, and one line on stderr that matches
expect_plan() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$PENSTOCK" plan "$@" >out 2>err </dev/null || rc=$?
    [ $rc = "$status" ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "plan $*: status $rc, expected $status and '$pattern': $(cat err)"
}
