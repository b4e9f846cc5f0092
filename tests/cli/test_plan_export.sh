#!/bin/sh
# test: label=full timeout=200 isa=any
# penstock plan --export: the layout as flags or configuration of other programs, read by their own parsers where Python has
# them; what they lack is listed.
. "$(dirname "$0")/../script.sh"
write_run 4
export_to() { # PROGRAM KEY=VALUE...: `out` and `err`
    program=$1
    shift
    "$PENSTOCK" plan run.yaml layers=4 batch=16 precision=bf16 --cluster '1x8 h100' --export "$program" "$@" >out 2>err ||
        fail "$program $*: $(cat err)"
}
has() { for line in "$@"; do grep -qxF -e "$line" out || fail "no line '$line' in: $(cat out)"; done; }
lacks() { for what in "$@"; do grep -q -e "--export $program: no counterpart of $what" err || fail "'$what' is not listed: $(cat err)"; done; }

even='pipeline=2 data=2 tensor=2 micro_batch=2 zero=1 sequence=true recompute=full'
# shellcheck disable=SC2086
export_to megatron $even schedule=1f1b
has '--tensor-model-parallel-size 2' '--pipeline-model-parallel-size 2' '--micro-batch-size 2' '--global-batch-size 16' \
    --sequence-parallel --use-distributed-optimizer --bf16 '--recompute-granularity full' '--num-layers 4' '--hidden-size 32'
! grep -q 'no counterpart of schedule\|no counterpart of ZeRO' err || fail "listed: $(cat err)"
# shellcheck disable=SC2086
export_to megatron $even schedule=zb-h1 zero=2
lacks 'schedule zb-h1' 'ZeRO 2' "the model's other sizes"
export_to megatron pipeline=2 data=1 tensor=1 schedule=1f1b micro_batch=1 'recompute={full:1}'
has '--recompute-granularity full' '--recompute-method block' '--recompute-num-layers 1'
export_to megatron pipeline=2 data=1 tensor=1 schedule=interleaved chunks=2 micro_batch=1
has '--num-virtual-stages-per-pipeline-rank 2'

# shellcheck disable=SC2086
export_to torchtitan $even schedule=zb-v
has --parallelism.tensor_parallel_degree=2 --parallelism.pipeline_parallel_schedule=ZBVZeroBubble \
    --parallelism.data_parallel_shard_degree=2 --training.local_batch_size=8 activation_checkpoint:full
lacks 'ZeRO 1'
cp out titan.txt
# shellcheck disable=SC2086
export_to torchtitan $even schedule=v-half
lacks 'schedule v-half'

# shellcheck disable=SC2086
export_to torchtitan $even schedule=1f1b 'recompute={full:1}'
has activation_checkpoint:full
lacks 'recomputation of 1 layers of each chunk'

export_to deepspeed pipeline=1 data=1 tensor=2 micro_batch=2 sequence=false zero=0 recompute=none
cp out deepspeed.json
grep -q '"autotp_size": 2' out || fail "$(cat out)"
# shellcheck disable=SC2086
export_to deepspeed $even schedule=1f1b
lacks '2 pipeline stages in a file' 'sequence parallelism' 'recomputation full'

expect_plan 2 "expected megatron, torchtitan or deepspeed, found 'megatrn'; did you mean 'megatron'" run.yaml -n 2 --export megatrn
expect_plan 2 'export and --json' run.yaml -n 2 --export megatron --json
expect_plan 4 'no layout fits' run.yaml -n 2 memory=1K --export megatron

python=${PST_TORCH_PYTHON:-}
[ "$python" ] || { echo "skipped: parsers of other programs: PST_TORCH_PYTHON is not set"; exit $bad; }
if "$python" -c 'import deepspeed' 2>/dev/null; then
    "$python" - >out 2>err <<'END' || fail "DeepSpeed refuses its configuration: $(cat err)"
import json
from deepspeed.runtime.config import DeepSpeedConfig
c = DeepSpeedConfig(json.load(open("deepspeed.json")))
assert c.train_batch_size == 16 and c.train_micro_batch_size_per_gpu == 2 and c.gradient_accumulation_steps == 8
assert c.zero_config.stage == 0 and c.bfloat16_config.enabled and c.tensor_parallel_config.autotp_size == 2
END
else
    echo "skipped: DeepSpeed's parser: $python has no deepspeed"
fi
if "$python" -c 'import tyro, torchtitan.distributed.activation_checkpoint' 2>/dev/null; then
    "$python" - >out 2>err <<'END' || fail "torchtitan refuses its flags: $(cat err)"
from dataclasses import dataclass, field
import tyro
from torchtitan.config.configs import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig, FullAC, SelectiveAC

@dataclass
class Config:
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    activation_checkpoint: ActivationCheckpointingConfig = field(default_factory=SelectiveAC.Config)

c = tyro.cli(Config, args=open("titan.txt").read().split())
p, t = c.parallelism, c.training
assert (p.tensor_parallel_degree, p.pipeline_parallel_degree, p.data_parallel_shard_degree) == (2, 2, 2)
assert p.pipeline_parallel_schedule == "ZBVZeroBubble" and p.pipeline_parallel_microbatch_size == 2
assert (t.local_batch_size, t.global_batch_size, t.seq_len) == (8, 16, 16) and t.mixed_precision_param == "bfloat16"
assert isinstance(c.activation_checkpoint, FullAC.Config)
END
else
    echo "skipped: torchtitan's parser: $python has no torchtitan"
fi
exit $bad
