#!/bin/sh
# test: label=full timeout=200 isa=any
# penstock plan --import: flags and configuration of other programs become the layout; an export that is imported again is
# the same layout with the same step; what has no counterpart is listed, what is wrong is refused.
. "$(dirname "$0")/../script.sh"
write_run 4
nodes='1x8 h100'
json() { # FILE ARGUMENT...: the layout and the step in `out`
    file=$1
    shift
    "$PENSTOCK" plan run.yaml layers=4 --cluster "$nodes" --import "$file" --json "$@" >answer 2>err ||
        fail "import $file $*: $(cat err)"
    numbers >out
}
numbers() { # what must be equal of `answer`
    tr -d ' \n' <answer | grep -o '"\(pipeline\|data\|tensor\|zero\|micro_batch\|schedule\|sequence\|step_s\|program\)":[^,}]*'
}
same() { # PROGRAM ARGUMENT...: plans, exports, imports
    program=$1
    shift
    "$PENSTOCK" plan run.yaml layers=4 batch=16 precision=bf16 --cluster "$nodes" --json "$@" >answer 2>err ||
        fail "plan $*: $(cat err)"
    numbers >planned
    "$PENSTOCK" plan run.yaml layers=4 batch=16 precision=bf16 --cluster "$nodes" --export "$program" "$@" >flags 2>err ||
        fail "export $*: $(cat err)"
    shift $(($# - 2))
    json flags "$@"
    cmp -s planned out || fail "$program: planned $(cat planned); imported $(cat out)"
}
same megatron pipeline=2 data=2 tensor=2 micro_batch=2 zero=1 sequence=true recompute=full schedule=1f1b --program megatron-core
grep -q '"imported": "Megatron-LM"' answer || fail "not said: $(cat answer)"
same megatron pipeline=2 data=4 tensor=1 micro_batch=1 zero=1 recompute=none schedule=interleaved chunks=2 --program penstock
same megatron pipeline=2 data=4 tensor=1 micro_batch=1 zero=1 'recompute={full:1}' schedule=1f1b --program penstock
same torchtitan pipeline=2 data=4 tensor=1 micro_batch=2 zero=2 recompute=none schedule=1f1b --program penstock
same torchtitan pipeline=2 data=2 tensor=2 micro_batch=2 zero=0 sequence=true recompute=full schedule=zb-v --program penstock
same deepspeed pipeline=1 data=8 tensor=1 micro_batch=2 zero=1 recompute=none schedule=1f1b --program megatron-core

# words of a script, what contradicts the run file, what has no counterpart, and the profile that fits
cat >train.sh <<'END'
# a comment with 'quotes
ARGS=(
    --num-layers 8 --hidden-size "64" \
    --num-attention-heads=4 --seq-length 16   # and another one
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
    --micro-batch-size 1 --global-batch-size 32 --use-distributed-optimizer --bf16
    --data-path a b c --log-interval 10 --lr 1e-4 --group-query-attention --num-query-groups 2
)
torchrun --nproc_per_node $GPUS pretrain_gpt.py ${ARGS[@]}
END
"$PENSTOCK" plan run.yaml --cluster "$nodes" --import train.sh parallel.pipeline=4 >out 2>err || fail "train.sh: $(cat err)"
grep -q "^gpt, 8 layers, 64 channels, batch 32 of 16 tokens, bf16, on 8 devices" out || fail "$(cat out)"
grep -q "^layout *2 stages x 2 replicas x 2 tensor ranks, 1f1b" out || fail "$(cat out)"
grep -q "^program *megatron-core" out || fail "$(cat out)"
grep -q "^import *train.sh, for Megatron-LM" out || fail "$(cat out)"
for key in parallel.pipeline=2 model.layers=8 model.channels=64 train.batch=32; do
    grep -q "contradicts it: $key, not" out || fail "$key is not listed: $(cat out)"
done
grep -q -e "--import train.sh: no counterpart of --num-query-groups, --data-path, --log-interval, --nproc_per_node$" err ||
    grep -q -e "no counterpart of --data-path, --log-interval, --num-query-groups, --nproc_per_node$" err || fail "not listed: $(cat err)"
echo '--swiglu --normalization RMSNorm --position-embedding-type learned_absolute --num-query-groups 2 --group-query-attention --ffn-hidden-size 64' >family
"$PENSTOCK" plan run.yaml model.kind=llama --cluster '1 h100' --import family >out 2>err || fail "family: $(cat err)"
grep -q "no counterpart of --position-embedding-type$" err || fail "what llama has is listed: $(cat err)"

cat >titan.toml <<'END'
# torchtitan
[model]
name = "llama3"      # no counterpart
[training]
local_batch_size = 4
seq_len = 1_6
[parallelism]
data_parallel_shard_degree = -1
fsdp_reshard_after_forward = 'never'
[activation_checkpoint]
mode = "full"
END
json titan.toml
grep -q '"program":"fsdp"' out && grep -q '"data":8' out && grep -q '"zero":2' out || fail "titan.toml: $(cat out)"
grep -q "no counterpart of model.name$" err || fail "not listed: $(cat err)"
echo '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}' >ds.json
json ds.json
grep -q "no counterpart of ZeRO 3" err && grep -q "no counterpart of train_batch_size, zero_optimization.offload_param.device$" err ||
    fail "ds.json: $(cat err)"

wrong() { # PATTERN TEXT [FILE]
    printf '%b' "$2" >"${3:-wrong.txt}"
    expect_plan 2 "$1" run.yaml --cluster "$nodes" --import "${3:-wrong.txt}"
}
wrong 'wrong.txt: neither flags' 'hello: world\n'
wrong 'wrong.txt:2: the quote . is not closed' '--bf16\n--x "abc\n'
wrong 'wrong.txt:2: --micro-batch-size: expected a whole number, at least 1, found .\$MBS.; variables' '--bf16\n--micro-batch-size $MBS\n'
wrong 'context-parallel-size: expected 1, because more has no counterpart' '--context-parallel-size 2\n'
wrong 'hidden size 33 is not a multiple of 4 attention heads' '--hidden-size 33 --num-attention-heads 4\n'
wrong 'tensor x pipeline is 3, which does not divide the 8 devices' '--tensor-model-parallel-size 3\n'
wrong 'is 4 ranks, but there are 8 devices' '--parallelism.data_parallel_replicate_degree=4 --parallelism.data_parallel_shard_degree=1\n'
wrong 'batch 9 is not a multiple of micro-batch 2 x 8 replicas' '--micro-batch-size 2 --global-batch-size 9\n'
wrong 'wrong.toml:2: arrays of several lines are not read' '[a]\nx = [1,\n2]\n' wrong.toml
wrong 'wrong.toml:1: strings of several lines' 'x = """a\n' wrong.toml
wrong 'wrong.toml:2: the key is given twice' 'x = 1\nx = 2\n' wrong.toml
wrong 'wrong.json:1:[0-9]*: not JSON' '{"a": }' wrong.json
wrong 'train_batch_size 9 is not a multiple of' \
    '{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}' wrong.json
wrong "schedule 'Odd' has no counterpart" '--parallelism.pipeline_parallel_degree=2 --parallelism.pipeline_parallel_schedule=Odd --parallelism.fsdp_reshard_after_forward=never\n'
expect_plan 2 'nowhere.txt' run.yaml --cluster "$nodes" --import nowhere.txt
expect_plan 2 'omit --gpus and --days' run.yaml --cluster "$nodes" --import titan.toml --tokens 1B --gpus 8
exit $bad
