#!/bin/sh
# test: label=full timeout=600
# No false alarm: `penstock verify` passes in random layouts, precisions and optimizers (random_run.py) that have no bug.
. "$(dirname "$0")/../script.sh"
command -v python3 >/dev/null || skip "needs python3"
write_run 2
for i in $(seq 400); do echo "a pipeline of $i stages is filled by $i micro-batches"; done >text.txt
cat >run.yaml <<END_OF_RUN
model: {kind: gpt}
data: {paths: [text.txt]}
END_OF_RUN
bf16=
has_bf16 "runs in bf16" && bf16=bf16
seed=${PST_SEED:-1}
echo "seed $seed"
for k in $(seq "$seed" $((seed + ${PST_SOAK:-20} - 1))); do
    # shellcheck disable=SC2046,SC2086
    set -- $(python3 -B "$SOURCE_DIR/tests/verify/random_run.py" "$k" $bf16)
    ranks=$1
    shift
    "$PENSTOCK" verify run.yaml -n "$ranks" "$@" >out 2>err </dev/null ||
        fail "seed $k: verify -n $ranks $*: $(cat out err)"
done
exit $bad
