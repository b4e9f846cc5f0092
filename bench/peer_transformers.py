#!/usr/bin/env python3
"""Peer: a full training step (forward, backward, clipping, fused AdamW) of a model of the package transformers, on CPU
threads or a GPU: BERT-base, or Llama of TinyLlama 1.1B's shape, by default with fewer layers.

    peer_transformers.py [--model bert|llama] [-B 8|2] [-T 128|512] [--layers 12|4] [--mode eager|compile] [--micro M]
                         [--tuned|--plain] [--threads 2] [--device cpu|cuda] [--precision fp32|bf16] [--graph]
                         [--steps 5] [--warmup 3] [--json]

Prints the median of the timed steps, tokens/s, the losses of the first and the last step, and the peak of memory: resident
memory, or what PyTorch allocated on the GPU. bf16: autocast, weights in fp32.
Attention runs by scaled_dot_product_attention. BERT predicts 15 % of the positions, and like penstock's bert, the head and
the logits of these alone are computed. bench/forms.py says what else is done for PyTorch."""

import argparse
import json
import math
import resource
import statistics

import forms
import peer_torch

# batch, context, layers; vocabulary; name
MODELS = {"bert": ((8, 128, 12), 30522, "BERT"), "llama": ((2, 512, 4), 32000, "TinyLlama")}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=True)
    p.add_argument("--model", choices=sorted(MODELS), default="bert")
    p.add_argument("-B", "--batch", type=int, help="samples per optimizer step")
    p.add_argument("-T", "--context", type=int)
    p.add_argument("--layers", type=int)
    p.add_argument("--micro", type=int, default=0, help="samples per micro-batch (gradient accumulation); 0: the batch")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--graph", action="store_true", help="the whole step as one CUDA graph")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    sizes = MODELS[args.model][0]
    args.batch, args.context, args.layers = (given or size for given, size in
                                             zip((args.batch, args.context, args.layers), sizes))
    args.micro, args.weights = args.micro or args.batch, "fp32"
    if args.model == "bert" and args.micro != args.batch:
        p.error("--micro is for llama: the positions that bert predicts are those of a batch")
    return args


def llama(torch, transformers, args, vocabulary):
    """The model, and its mean loss as a function of tokens and targets."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=2048, intermediate_size=5632, num_hidden_layers=args.layers,
        num_attention_heads=32, num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5, use_cache=False,
        attn_implementation="sdpa"))

    def loss(tokens, targets):
        logits = model(input_ids=tokens).logits
        return torch.nn.functional.cross_entropy(logits.view(-1, vocabulary), targets.reshape(-1))

    return model, loss


def bert(torch, transformers, args, vocabulary):
    """The same; the loss is that of the predicted positions."""
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=vocabulary, num_hidden_layers=args.layers, attn_implementation="sdpa", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))
    chosen = torch.rand(args.batch, args.context, generator=torch.Generator().manual_seed(3)).argsort(dim=1)
    chosen = chosen[:, :math.ceil(0.15 * args.context)].sort(dim=1).values
    predicted = (chosen + args.context * torch.arange(args.batch)[:, None]).flatten().to(args.device)

    def loss(tokens, targets):
        hidden = model.bert(input_ids=tokens).last_hidden_state.flatten(0, 1)
        logits = model.cls(hidden.index_select(0, predicted))
        return torch.nn.functional.cross_entropy(logits, targets.flatten().index_select(0, predicted))

    return model, loss


def module(torch, build):
    """A module as peer_torch.train wants it: model(tokens, targets) is the mean loss."""

    class Peer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.loss = build()

        def forward(self, tokens, targets):
            return self.loss(tokens, targets)

        def optimizer(self, lr, decay, **options):
            return torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=decay, **options)

    return Peer()


def main():
    args = arguments()
    forms.restart(args)
    torch = forms.load(args, args.threads)
    try:
        import transformers
    except ImportError as why:
        raise SystemExit(f"peer_transformers.py: needs the package transformers: {why}") from None
    torch.manual_seed(1)
    _, vocabulary, name = MODELS[args.model]
    build = {"bert": bert, "llama": llama}[args.model]
    model = module(torch, lambda: build(torch, transformers, args, vocabulary)).to(args.device)
    times, losses = peer_torch.train(args, torch, model, vocabulary)
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() / 1048576 if args.device == "cuda" else \
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"version": torch.__version__, "transformers": transformers.__version__, **forms.form(args),
             "step_ms": median * 1e3, "tokens_per_s": args.batch * args.context / median,
             "peak_mib": peak, "device": args.device, "precision": args.precision, "graph": args.graph, "first_loss": losses[0],
             "loss": losses[-1], "uniform_loss": math.log(vocabulary)}
    if args.json:
        print(json.dumps(found))
        return
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {forms.described(args)}, {name} with "
          f"{args.layers} layers B={args.batch} T={args.context} threads={args.threads}: {median * 1e3:.1f} ms/step, "
          f"{found['tokens_per_s']:.0f} tok/s, loss {losses[0]:.3f} to {losses[-1]:.3f}, peak {found['peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
