"""The forms in which PyTorch's training step is run as a peer: eager or compiled, glibc's malloc as it is or tuned.
Which one is fastest depends on the model and the processor, so the speed table runs all of them and compares with the
fastest. What all forms have in common is its best known way, too: products by F.linear, so that autocast leaves what
follows in 16 bits (tests/parity/gpt2.py); attention by scaled_dot_product_attention; the fused AdamW; gradients that
are dropped after a step (set_to_none), not filled with zeros; GPT-2's initial weights, from which no denormal numbers
come. (Denormal numbers that come while training could be flushed by torch.set_flush_denormal, a choice that changes
results; --flush-denormal makes it.)"""

import os
import sys

# Spares page faults: memory is kept instead of handed back to the system and touched again in every step.
TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864",
         "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# What torch.compile is asked for; the second and third of the compiled ones run CUDA graphs of their own.
MODES = {"eager": None, "compile": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune",
         "max-autotune-no-cudagraphs": "max-autotune-no-cudagraphs"}
OWN_GRAPHS = ("reduce-overhead", "max-autotune")
# On a GPU: (--mode, the whole step as one CUDA graph, --weights). Weights of 16 bits are less exact than ours, whose masters
# have 32, and so are AdamW's moments then: these forms stand beside the others, not for them.
GPU_FORMS = {f"{mode}{' graph' * graph}{' bf16 weights' * (weights == 'bf16')}": (mode, graph, weights)
             for weights in ("fp32", "bf16")
             for mode, graph in (("compile", False), ("compile", True), ("reduce-overhead", False), ("max-autotune", False),
                                 ("max-autotune-no-cudagraphs", True))}
# name: (--mode, malloc tuned)
FORMS = {"eager": ("eager", False), "eager tuned": ("eager", True), "compile": ("compile", False),
         "compile tuned": ("compile", True)}
STEPS = 5  # at least as many are timed, after
WARMUP = 3  # in which memory is touched and code compiled
PRESETS = {"nano": dict(layers=4, heads=4, channels=128, context=64, vocabulary=256),
           "six": dict(layers=6, heads=6, channels=384, context=256, vocabulary=256),
           "gpt2": dict(layers=12, heads=12, channels=768, context=1024, vocabulary=50257),
           "gpt2-medium": dict(layers=24, heads=16, channels=1024, context=1024, vocabulary=50257),
           "gpt2-xl": dict(layers=48, heads=25, channels=1600, context=1024, vocabulary=50257)}
# The linear operators of a step of GPT-2 124M, B=4 T=256: rows x inputs x outputs, and how many there are of each.
PRODUCTS = {"1024x768x2304": 12, "1024x768x768": 12, "1024x768x3072": 12, "1024x3072x768": 12, "1024x768x50257": 1}
MISSING = "needs PyTorch: pip install torch (3 GB to download; the build for CPUs alone is smaller)"


def add_options(parser, tuned):
    """What every peer takes. tuned: whether malloc is tuned by default."""
    parser.add_argument("--preset", choices=PRESETS, default="gpt2")
    parser.add_argument("--mode", choices=MODES, default="eager")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--tuned", dest="tuned", action="store_true", default=tuned,
                       help="glibc's malloc tuned" + (" (default)" if tuned else ""))
    group.add_argument("--plain", dest="tuned", action="store_false",
                       help="glibc's malloc as it is" + ("" if tuned else " (default)"))
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps that are timed (default {STEPS})")
    parser.add_argument("--warmup", type=int, default=WARMUP, help=f"steps before those (default {WARMUP})")
    parser.add_argument("--flush-denormal", action="store_true", help="denormal numbers count as zero")
    parser.add_argument("--json", action="store_true")


def environment(args):
    return TUNED if args.tuned else {}


def restart(args):
    """malloc reads its settings when a program starts."""
    if args.tuned and not all(os.environ.get(k) == v for k, v in TUNED.items()):
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **TUNED})


def torch_or_exit():
    try:
        import torch
    except ImportError as why:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: {MISSING}: {why}") from None
    return torch


def load(args, threads):
    """The module torch, set up."""
    torch = torch_or_exit()
    torch.set_num_threads(threads)
    if args.flush_denormal and not torch.set_flush_denormal(True):
        raise SystemExit("--flush-denormal: this processor cannot")
    return torch


class Compiler:
    """That nothing is compiled within the timed steps."""

    def __init__(self, args):
        self.mode, self.before = args.mode, None

    def graphs(self):
        from torch._dynamo.utils import counters
        return counters["stats"]["unique_graphs"]

    def apply(self, model):
        """The model itself, whose forward is compiled when it is called first."""
        if self.mode != "eager":
            model.compile(mode=MODES[self.mode])
        return model

    def warm(self):
        """The steps from here on are timed."""
        self.before = self.graphs() if self.mode != "eager" else None

    def check(self):
        if self.mode != "eager" and (not self.before or self.graphs() != self.before):
            raise SystemExit(f"compiled {self.before} graphs before the timed steps and {self.graphs()} in all: "
                             "more --warmup")


def form(args):
    """What a result says of how it was made."""
    return {"mode": args.mode, "tuned": args.tuned, "steps": args.steps, "warmup": args.warmup}


def described(args):
    return args.mode + (", malloc tuned" if args.tuned else "") + (", denormals flushed" if args.flush_denormal else "")
