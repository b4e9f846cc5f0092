"""Prints a random small run, as `penstock verify` takes it: python3 random_run.py SEED [bf16]. The first line has the
kind of the model, the second one the number of ranks, every other one an override."""
import random
import sys

LAYOUTS = [(1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (1, 1, 2), (2, 1, 2), (1, 2, 2), (4, 1, 1), (1, 4, 1), (1, 3, 1),
           (2, 2, 2), (1, 1, 4)]  # stages, replicas, tensor ranks


def choose_model(r, kind, stages):
    """Keys of a small model of this kind."""
    layers = max(2, stages * 2)
    if kind == "resnet":  # pixels in groups of 4 and 1 at the end
        return {"model.layers": r.choice([8, 8, 8, 18]), "model.channels": 4}
    keys = {"model.layers": layers, "model.channels": 32, "model.context": 16}
    if kind != "bert":
        keys["model.activation"] = r.choice(["gelu_tanh", "gelu_erf", "relu"])
    if kind != "mlp":
        keys |= {"model.heads": 4, "model.dropout": r.choice([0, 0, 0.2])}
    return keys


def choose_replicas(r, keys, data, micros):
    """How replicas share a step, and what they add."""
    keys["parallel.zero"] = r.choice([0, 1, 1, 2])
    if r.random() < 0.3:
        each = micros // data
        few = r.randrange(1, each + 1)
        shares = [few] + [each] * (data - 2) + [2 * each - few]
        keys["parallel.replicas"] = "[" + ",".join(map(str, shares)) + "]"
    if r.random() < 0.3:
        keys["parallel.gradients"] = "bf16"
    elif data == 2 and keys["parallel.zero"] != 2 and micros % 4 == 0 and r.random() < 0.3:
        keys.pop("parallel.replicas", None)
        keys["parallel.reproducible.data"] = 4


def choose_exchange(r, keys, each):
    """Parameter servers, or codecs. each: ranks of a replica."""
    if keys["parallel.zero"] == 2:
        return
    if r.random() < 0.3:
        keys["parallel.servers"] = each * r.choice([1, 1, 2])
    elif r.random() < 0.5 and "parallel.reproducible.data" not in keys and "parallel.gradients" not in keys:
        keys |= {"parallel.compress.up": r.choice(["none", "int8", "int4", "2bit", "topk", "powersgd", "bf16"]),
                 "parallel.compress.links": "all", "parallel.compress.min_bytes": r.choice([0, 4096]),
                 "parallel.compress.after": r.choice([0, 0, 2])}
        if keys["parallel.compress.up"] == "topk":
            keys["parallel.compress.warmup"] = r.choice([0, 3])
        if keys["parallel.zero"] == 1 and keys["train.precision"] == "fp32":
            keys["parallel.compress.down"] = r.choice(["none", "int8", "int4", "bf16"])


def choose(seed, bf16):
    """(kind, keys)"""
    r = random.Random(seed)
    kind = r.choice(["gpt", "gpt", "gpt", "bert", "mlp", "resnet"])
    stages, data, tensor = r.choice([layout for layout in LAYOUTS if kind in ("gpt", "bert") or layout[2] == 1])
    micros = data * stages * r.choice([1, 2])
    size = r.choice([1, 2]) if kind != "resnet" else r.choice([2, 8])
    keys = {
        "parallel.pipeline": stages, "parallel.data": data, "parallel.tensor": tensor,
        "train.micro_batch": size, "train.batch": size * micros,
        **choose_model(r, kind, stages),
        "train.seed": r.randrange(1000), "train.optimizer": r.choice(["adamw", "adamw", "sgd"]),
        "train.lr": r.choice([0.001, 0.02]), "train.clip": r.choice([0, 0.1, 1]),
        "train.warmup": r.choice([0, 2]),
        "parallel.recompute": r.choice(["none", "selective", "full", "{full: 1}"]),
        "parallel.post_validation": r.choice(["false", "true"]),
        "parallel.threads": r.choice([1, 2]),
        "train.precision": r.choice(["fp32", "fp32", "fp32", "fp16"] + (["bf16"] if bf16 else [])),
    }
    if tensor > 1:
        keys["parallel.sequence"] = r.choice(["false", "true"])
        if r.random() < 0.4:
            keys["parallel.reproducible.tensor"] = r.choice([tensor, 4])
    if stages > 1:
        keys["parallel.schedule"] = r.choice(["gpipe", "1f1b", "1f1b-early", "zb-h1", "zb-h2", "interleaved", "zb-v",
                                              "v-half", "v-min"])
    if data > 1:
        choose_replicas(r, keys, data, micros)
    if kind in ("gpt", "bert") and r.random() < 0.3:
        keys["train.residual"] = "fp32"
    first = [n for n in range(data, micros) if micros % n == 0 and n % keys.get("parallel.reproducible.data", 1) == 0]
    if first and r.random() < 0.4:
        keys["train.batch_warmup.from"] = size * r.choice(first)
        keys["train.batch_warmup.tokens"] = r.choice([10, 200, 5000])
    if data > 1:
        choose_exchange(r, keys, stages * tensor)
    return kind, keys


if __name__ == "__main__":
    model, chosen = choose(int(sys.argv[1]), len(sys.argv) > 2)
    replicas = chosen["parallel.pipeline"] * chosen["parallel.data"] * chosen["parallel.tensor"]
    print(model, replicas + chosen.get("parallel.servers", 0), sep="\n")
    print("\n".join(f"{key}={value}" for key, value in chosen.items()))
