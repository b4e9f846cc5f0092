#!/bin/sh
# test: label=full timeout=600
# Live: the peers of bench/ make the same training steps (of one process, on a pipeline in each schedule, on two replicas),
# from weights that leave no softmax denormal, and their linear layer stays in 16 bits below autocast.
# shellcheck source=tests/parity/torch.sh
. "$(dirname "$0")/torch.sh"
need_torch .distributed.pipelining
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
export PYTHONDONTWRITEBYTECODE=1
bench=$SOURCE_DIR/bench
small='--preset six -T 8 --steps 1 --warmup 1 --json'

value() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" json; }
# shellcheck disable=SC2086
peer() { # NAME PROGRAM OPTION...: the loss of its second step is that of the first peer
    name=$1 program=$2
    shift 2
    timeout 200 "$python" "$bench/$program.py" $small "$@" >json 2>err || { fail "$name: $(tail -3 err)"; return; }
    loss=$(value loss)
    : "${first:=$loss}"
    awk -v a="$loss" -v b="$first" 'BEGIN { exit !(a > 1 && (a / b - 1) ^ 2 < 1e-8) }' || fail "$name: loss $loss, not $first"
}
first=
peer "one process" peer_torch -B 4 --micro 1 --plain
awk -v a="$(value first_loss)" -v b="$(value uniform_loss)" 'BEGIN { exit !((a / b - 1) ^ 2 < 0.01) }' ||
    fail "the first loss is $(value first_loss): $(cat json)"
peer "one process, tuned" peer_torch -B 4
for schedule in 1f1b zb-v dualpipev; do
    peer $schedule peer_pipeline --micro-batches 4 --schedule $schedule
done
peer "two replicas" peer_ddp -B 4 --tuned

cat >half.py <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import torch
from gpt2 import GPT2, random_weights
model = GPT2(random_weights(1, 32, 8, 64, seed=1), 1, 2)
with torch.autocast("cpu", torch.bfloat16):
    x = torch.zeros(1, 8, 32)
    assert model.linear(x, "h.0.mlp.c_fc").dtype == torch.bfloat16
    assert model.head(x).dtype == torch.bfloat16
END
"$python" half.py "$SOURCE_DIR/tests/parity" 2>err || fail "autocast: $(cat err)"
exit $bad
