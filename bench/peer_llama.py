#!/usr/bin/env python3
"""Peer: a full training step of LlamaForCausalLM (forward, backward, clipping, fused AdamW) of the package transformers, of
TinyLlama 1.1B's shape with fewer layers, on CPU threads.

    peer_llama.py [-B 2] [-T 512] [--layers 4] [--mode eager|compile] [--tuned|--plain] [--threads 2] [--steps 5]
                  [--warmup 3] [--json]

Prints the median of the timed steps, tokens/s, the losses of the first and the last step, and peak resident memory.
Attention runs by scaled_dot_product_attention. bench/forms.py says what else is done for PyTorch."""

import argparse
import json
import math
import resource
import statistics

import forms
import peer_torch

VOCABULARY = 32000


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=True)
    p.add_argument("-B", "--batch", type=int, default=2, help="samples per optimizer step")
    p.add_argument("-T", "--context", type=int, default=512)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    args.micro, args.device, args.precision, args.weights, args.graph = args.batch, "cpu", "fp32", "fp32", False
    return args


def llama(torch, transformers, layers):
    """A module as peer_torch.train wants it: model(tokens, targets) is the mean loss."""

    class Llama(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=2048, intermediate_size=5632,
                                              num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=4,
                                              max_position_embeddings=2048, rms_norm_eps=1e-5, use_cache=False,
                                              attn_implementation="sdpa")
            self.model = transformers.LlamaForCausalLM(config)

        def forward(self, tokens, targets):
            logits = self.model(input_ids=tokens).logits
            return torch.nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

        def optimizer(self, lr, decay, **options):
            return torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=decay, **options)

    return Llama()


def main():
    args = arguments()
    forms.restart(args)
    torch = forms.load(args, args.threads)
    try:
        import transformers
    except ImportError as why:
        raise SystemExit(f"peer_llama.py: needs the package transformers: {why}") from None
    torch.manual_seed(1)
    times, losses = peer_torch.train(args, torch, llama(torch, transformers, args.layers), VOCABULARY)
    median = statistics.median(times)
    found = {"version": torch.__version__, "transformers": transformers.__version__, **forms.form(args),
             "step_ms": median * 1e3, "tokens_per_s": args.batch * args.context / median,
             "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "first_loss": losses[0],
             "loss": losses[-1], "uniform_loss": math.log(VOCABULARY)}
    if args.json:
        print(json.dumps(found))
        return
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {forms.described(args)}, TinyLlama with "
          f"{args.layers} layers B={args.batch} T={args.context} threads={args.threads}: {median * 1e3:.1f} ms/step, "
          f"{found['tokens_per_s']:.0f} tok/s, loss {losses[0]:.3f} to {losses[-1]:.3f}, peak {found['peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
