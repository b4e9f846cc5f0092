# run
ARGS=(
  --num-layers 4 --hidden-size "64" \
  --tensor-model-parallel-size=2 --bf16 # end
)
torchrun $X p.py ${ARGS[@]}
