#!/bin/sh
# test: label=quick timeout=60
# examples/python/penstock.py: trains, reads tensors, saves and loads; its errors are the library's messages; the losses
# and weights are those of the program that trains the same model in another layout.
. "$(dirname "$0")/../script.sh"
python=${PST_TORCH_PYTHON:-python3}
"$python" -c 'import numpy' 2>/dev/null || skip "needs Python with numpy (apt-get install python3-numpy)"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$SOURCE_DIR/examples/python"
export PENSTOCK_LIBRARY="${PENSTOCK%/*}/libpenstock.so"
"$python" "$SOURCE_DIR/examples/python/penstock.py" >out 2>err || fail "the example: status $?: $(cat err)"
grep -q '^step 60  loss 0\.' out && grep -q '^wte.weight (64, 64): ' out || fail "the example: $(cat out)"
cat >check.py <<'END'
import ctypes
import numpy
import penstock

keys = ["model.kind=gpt", "model.layers=2", "model.heads=2", "model.channels=16", "model.context=8",
        "model.vocabulary=32", "batch=8", "micro_batch=2", "steps=4", "warmup=0", "parallel.threads=1"]
config = penstock.Config("check", keys)
graph = penstock.Graph(config)
assert graph.data == {"tokens": (2, 8), "targets": (2, 8)}, graph.data
shapes = graph.parameters
assert shapes["wte.weight"] == (32, 16) and shapes["h.1.mlp.c_fc.weight"] == (64, 16), shapes
assert sum(numpy.prod(s) for s in shapes.values()) == graph.weights
random = numpy.random.default_rng(2)
batches = [random.integers(32, size=(2, 8, 8)) for _ in range(3)]


def train(ranks):
    plan = penstock.Plan(config, graph, ranks=ranks)
    assert plan.stages == ranks and plan.micro_batches == 4 and plan.step_s > 0 and plan.peak_bytes(0) > 0
    session = penstock.Session(config, graph, plan)
    losses = [session.step(*batch).loss for batch in batches]
    assert session.steps == 3
    return session, losses


one, losses = train(1)
two, same = train(2)
assert losses == same and one.hash == two.hash
assert one.evaluate(*batches[0]) < losses[0]
before = one.read("h.0.attn.c_attn.weight")
assert before.dtype == numpy.float32 and before.shape == (48, 16) and numpy.array_equal(
    before, two.read("h.0.attn.c_attn.weight"))
one.save("saved")
more = one.step(*batches[0]).loss
assert not numpy.array_equal(one.read("h.0.attn.c_attn.weight"), before)
two.load("saved")
assert two.steps == 3 and two.step(*batches[0]).loss == more and one.hash == two.hash


def raises(kind, text, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__} with {text!r}")


raises(penstock.Error, "unknown key", penstock.Config, "x", ["model.kinds=gpt"])
raises(penstock.Error, "none.yaml", penstock.Config.load, "none.yaml")
raises(penstock.Error, "tokens contains 32; expected 0 to 31", one.step, numpy.full((8, 8), 32), batches[0][1])
raises(ValueError, "tokens is int64 (8, 7); expected integers (8, 8)", one.step, batches[0][0][:, :7], batches[0][1])
raises(ValueError, "the model reads tokens, targets", one.step, batches[0][0])
raises(ValueError, "expected integers", one.step, batches[0][0] * 1.0, batches[0][1])
raises(ValueError, "tokens has values from 4294967296 to 4294967296; expected int32", one.step,
       numpy.full((8, 8), 2**32), batches[0][1])
raises(ValueError, "targets has values from -2147483649", one.evaluate, batches[0][0], numpy.full((8, 8), -2**31 - 1))
raises(ValueError, "contains a NUL", penstock.Config, "x", ["model.kind=gpt", "lr=1\0e-3"])
raises(ValueError, "contains a NUL", penstock.Config, "x\0y", keys)
raises(ValueError, "contains a NUL", penstock.Config.load, "none\0.yaml")
raises(ValueError, "contains a NUL", one.save, "saved\0")
raises(AttributeError, "parameters", penstock.Session, config, None, None)  # nothing is printed when it is deleted
raises(KeyError, "wte", one.read, "wte")
one.close()
raises(ValueError, "closed", one.read, "wte.weight")
END
"$python" check.py >out 2>err || fail "check.py: $(cat out err)"
[ ! -s out ] && [ ! -s err ] || fail "output: $(cat out err)"
exit $bad
