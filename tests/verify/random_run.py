"""Prints overrides of a random small run, as `penstock verify` takes them: python3 random_run.py SEED [bf16]."""
import random
import sys


def choose(seed, bf16):
    r = random.Random(seed)
    stages, data, tensor = r.choice([(1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (1, 1, 2), (2, 1, 2), (1, 2, 2),
                                     (4, 1, 1), (1, 4, 1), (1, 3, 1), (2, 2, 2), (1, 1, 4)])
    micros = data * stages * r.choice([1, 2])
    size = r.choice([1, 2])
    keys = {
        "parallel.pipeline": stages, "parallel.data": data, "parallel.tensor": tensor,
        "train.micro_batch": size, "train.batch": size * micros,
        "model.layers": max(2, stages * 2), "model.heads": 4, "model.channels": 32, "model.context": 16,
        "model.dropout": r.choice([0, 0, 0.2]),
        "train.seed": r.randrange(1000), "train.optimizer": r.choice(["adamw", "adamw", "sgd"]),
        "train.lr": r.choice([0.001, 0.02]), "train.clip": r.choice([0, 0.1, 1]),
        "train.warmup": r.choice([0, 2]),
        "parallel.zero": r.choice([0, 1, 1, 2]) if data > 1 else 1,
        "parallel.recompute": r.choice(["none", "selective", "full"]),
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
    if data == 2 and keys["parallel.zero"] != 2 and micros % 4 == 0 and r.random() < 0.3:
        keys["parallel.reproducible"] = 4
    if r.random() < 0.3:
        keys["train.residual"] = "fp32"
    return keys


if __name__ == "__main__":
    chosen = choose(int(sys.argv[1]), len(sys.argv) > 2)
    print(chosen["parallel.pipeline"] * chosen["parallel.data"] * chosen["parallel.tensor"])
    print(" ".join(f"{key}={value}" for key, value in chosen.items()))
