#!/usr/bin/env python3
"""Peer: a full BERT-base training step (masked language model; forward, backward, clipping, fused AdamW) of the package
transformers, on CPU threads.

    peer_bert.py [-B 8] [-T 128] [--mode eager|compile] [--tuned|--plain] [--threads 2] [--steps 5] [--warmup 3] [--json]

Prints the median of the timed steps, tokens/s, the losses of the first and the last step, and peak resident memory.
Attention runs by scaled_dot_product_attention. 15 % of the positions are predicted, and like penstock's bert, the head
and the logits of these alone are computed. bench/forms.py says what else is done for PyTorch."""

import argparse
import json
import math
import resource
import statistics

import forms
import peer_torch

VOCABULARY = 30522


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=True)
    p.add_argument("-B", "--batch", type=int, default=8, help="samples per optimizer step")
    p.add_argument("-T", "--context", type=int, default=128)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    args.micro, args.device, args.precision, args.weights, args.graph = args.batch, "cpu", "fp32", "fp32", False
    return args


def bert(torch, transformers, batch, context):
    """A module as peer_torch.train wants it: model(tokens, targets) is the mean loss of the predicted positions."""

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.BertConfig(vocab_size=VOCABULARY, attn_implementation="sdpa",
                                             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            self.model = transformers.BertForMaskedLM(config)
            generator = torch.Generator().manual_seed(3)
            chosen = torch.rand(batch, context, generator=generator).argsort(dim=1)
            chosen = chosen[:, :math.ceil(0.15 * context)].sort(dim=1).values
            self.register_buffer("predicted", (chosen + context * torch.arange(batch)[:, None]).flatten())

        def forward(self, tokens, targets):
            hidden = self.model.bert(input_ids=tokens).last_hidden_state.flatten(0, 1)
            logits = self.model.cls(hidden.index_select(0, self.predicted))
            return torch.nn.functional.cross_entropy(logits, targets.flatten().index_select(0, self.predicted))

        def optimizer(self, lr, decay, **options):
            return torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=decay, **options)

    return Bert()


def main():
    args = arguments()
    forms.restart(args)
    torch = forms.load(args, args.threads)
    try:
        import transformers
    except ImportError as why:
        raise SystemExit(f"peer_bert.py: needs the package transformers: {why}") from None
    torch.manual_seed(1)
    times, losses = peer_torch.train(args, torch, bert(torch, transformers, args.batch, args.context), VOCABULARY)
    median = statistics.median(times)
    found = {"version": torch.__version__, "transformers": transformers.__version__, **forms.form(args),
             "step_ms": median * 1e3, "tokens_per_s": args.batch * args.context / median,
             "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "first_loss": losses[0],
             "loss": losses[-1], "uniform_loss": math.log(VOCABULARY)}
    if args.json:
        print(json.dumps(found))
        return
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {forms.described(args)}, BERT-base "
          f"B={args.batch} T={args.context} threads={args.threads}: {median * 1e3:.1f} ms/step, "
          f"{found['tokens_per_s']:.0f} tok/s, loss {losses[0]:.3f} to {losses[-1]:.3f}, peak {found['peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
