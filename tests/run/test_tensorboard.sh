#!/bin/sh
# test: label=full timeout=120 isa=any
# The event files of a run that was killed and resumed, read by the tensorboard package (skipped where it is not there).
set -u
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 && "$python" -c 'import tensorboard' 2>/dev/null ||
    { echo "skipped: $python has no tensorboard (pip install tensorboard)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

yes "all work and no play makes jack a dull boy" | head -400 >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 32}
data: {kind: text, paths: [text.txt]}
train: {steps: 100000, decay: none, batch: 8, micro_batch: 2, warmup: 0, validate_every: 50}
checkpoint: {every: 20, keep: 2}
END
"$PENSTOCK" train run.yaml -q -n 2 >out 2>err &
pid=$!
n=0
while [ ! -e runs/run/checkpoints/step-00000060 ] && [ $n -lt 600 ]; do sleep 0.05 && n=$((n + 1)); done
kill -KILL $pid
wait $pid 2>/dev/null
# Steps after the last checkpoint are in the first file and void: they come again, in the second one.
last=$(find runs/run/checkpoints -maxdepth 1 -name 'step-*' | sort | tail -1 | sed 's/.*step-0*//')
"$PENSTOCK" train run.yaml -q -n 2 --resume runs/run train.steps=$((last + 30)) >out 2>err || { cat err; exit 1; }

"$python" - runs/run <<'END'
import json, os, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = sys.argv[1]
with open(os.path.join(run, "metrics.jsonl")) as f:
    lines = [json.loads(line) for line in f]
steps = [line for line in lines if "event" not in line]
if len(os.listdir(os.path.join(run, "tb"))) != 2:
    sys.exit("expected two event files: " + str(os.listdir(os.path.join(run, "tb"))))
a = EventAccumulator(os.path.join(run, "tb"), size_guidance={"scalars": 0, "tensors": 0})
a.Reload()

def same(tag, key, n=None):
    ours = [(line["step"], line[key] if n is None else line[key][n]) for line in steps]
    theirs = [(e.step, e.value) for e in a.Scalars(tag)]
    if [s for s, _ in ours] != [s for s, _ in theirs]:
        sys.exit(f"{tag}: steps {[s for s, _ in theirs]}")
    for (s, x), (_, y) in zip(ours, theirs):
        if abs(x - y) > 1e-6 * abs(x):
            sys.exit(f"{tag}, step {s}: {y}, expected {x}")

for tag, key in (("loss/train", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm"), ("speed/mfu", "mfu"),
                 ("speed/tokens_per_s", "tokens_per_s"), ("step_ms/measured", "step_ms"),
                 ("step_ms/predicted", "predicted_step_ms"), ("step_ms/data_wait", "data_wait_ms"),
                 ("bubble/measured", "bubble"),
                 ("bubble/predicted", "predicted_bubble")):
    same(tag, key)
for rank in range(2):
    same(f"memory/resident_bytes_rank_{rank}", "resident_bytes", rank)
validations = [(line["step"], line["loss"]) for line in lines if line.get("event") == "validation"]
got = [(e.step, e.value) for e in a.Scalars("loss/validation")]
if [s for s, _ in got] != [s for s, _ in validations]:
    sys.exit(f"validation: {got}")
if b"kind: gpt" not in a.Tensors("run.yaml")[0].tensor_proto.string_val[0]:
    sys.exit("no run.yaml")
print(len(steps), "steps,", len(got), "validations")
END
