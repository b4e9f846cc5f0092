#!/usr/bin/env python3
"""Peer: a full training step of a residual network (forward, backward, clipping, fused AdamW) in PyTorch, on CPU threads.
The networks are those of models/resnet.c: ResNet-50 is torchvision's, ResNet-20 the CIFAR network of He et al. 2016 with
projections where a shape changes. That they have as many parameters as ours is checked.

    peer_resnet.py [--net resnet20|resnet50] [-B N] [--channels-last] [--mode eager|compile] [--tuned|--plain]
                   [--threads 2] [--steps 5] [--warmup 3] [--json]

-B: by default 128 images of 32 pixels, 16 of 224. Prints the median of the timed steps, images/s, the losses of the first
and the last step, and peak resident memory. bench/forms.py says what else is done for PyTorch."""

import argparse
import json
import math
import resource
import statistics

import forms
import peer_torch

# Blocks of each stage, channels of the first, bottlenecks, classes, pixels of a side, images of a batch, parameters
NETS = {"resnet20": dict(blocks=(3, 3, 3), channels=16, deep=False, classes=10, side=32, batch=128, parameters=272474),
        "resnet50": dict(blocks=(3, 4, 6, 3), channels=64, deep=True, classes=1000, side=224, batch=16, parameters=25557032)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms.add_options(p, tuned=True)
    p.add_argument("--net", choices=NETS, default="resnet20")
    p.add_argument("-B", "--batch", type=int, help="images per optimizer step")
    p.add_argument("--channels-last", action="store_true", help="images and weights with their channels last, as ours are")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    args.batch = args.batch or NETS[args.net]["batch"]
    args.micro, args.device, args.precision, args.weights, args.graph = args.batch, "cpu", "fp32", "fp32", False
    return args


def network(torch, size):
    """A module as peer_torch.train wants it: model(images, classes) is the mean loss."""
    nn, F = torch.nn, torch.nn.functional

    def convolution(channels, out, window, stride):
        return nn.Conv2d(channels, out, window, stride, window // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            out = 4 * width if size["deep"] else width
            layers = [(width, 1, 1), (width, 3, stride), (out, 1, 1)] if size["deep"] else [(width, 3, stride), (width, 3, 1)]
            before = [channels] + [layer[0] for layer in layers]
            self.convolutions = nn.ModuleList(convolution(c, *layer) for c, layer in zip(before, layers))
            self.norms = nn.ModuleList(nn.BatchNorm2d(layer[0]) for layer in layers)
            self.shortcut = nn.Identity()
            if stride != 1 or channels != out:
                self.shortcut = nn.Sequential(convolution(channels, out, 1, stride), nn.BatchNorm2d(out))

        def forward(self, x):
            y = x
            for i, (layer, norm) in enumerate(zip(self.convolutions, self.norms)):
                y = norm(layer(F.relu(y, inplace=True) if i else y))
            return F.relu(y + self.shortcut(x), inplace=True)

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            large, channels, blocks = size["side"] > 64, size["channels"], []
            self.stem = nn.Sequential(convolution(3, channels, 7 if large else 3, 2 if large else 1), nn.BatchNorm2d(channels),
                                      nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1) if large else nn.Identity())
            for stage, count in enumerate(size["blocks"]):
                for i in range(count):
                    width = size["channels"] << stage
                    blocks.append(Block(channels, width, 2 if stage and not i else 1))
                    channels = 4 * width if size["deep"] else width
            self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, size["classes"])

        def forward(self, images, classes):
            x = self.blocks(self.stem(images.float() * (2 / 255) - 1))
            return F.cross_entropy(self.head(x.mean((2, 3))), classes)

        def optimizer(self, lr, decay, **options):
            return torch.optim.AdamW(self.parameters(), lr=lr, weight_decay=decay, **options)

    return ResNet()


def main():
    args = arguments()
    forms.restart(args)
    torch = forms.load(args, args.threads)
    torch.manual_seed(1)
    size = NETS[args.net]
    model = network(torch, size)
    parameters = sum(p.numel() for p in model.parameters())
    if parameters != size["parameters"]:
        raise SystemExit(f"peer_resnet.py: {parameters} parameters, where ours has {size['parameters']}")
    images = torch.randint(0, 256, (args.batch, 3, size["side"], size["side"]), dtype=torch.uint8)
    classes = torch.randint(0, size["classes"], (args.batch,))
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    times, losses = peer_torch.train_on(args, torch, model, images, classes)
    median = statistics.median(times)
    found = {"version": torch.__version__, **forms.form(args), "channels_last": args.channels_last,
             "step_ms": median * 1e3, "tokens_per_s": args.batch / median,
             "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "first_loss": losses[0],
             "loss": losses[-1], "uniform_loss": math.log(size["classes"])}
    if args.json:
        print(json.dumps(found))
        return
    print(f"torch {torch.__version__} {forms.described(args)}{', channels last' * args.channels_last}, {args.net} "
          f"B={args.batch} threads={args.threads}: {median * 1e3:.1f} ms/step (min {min(times) * 1e3:.1f}, max "
          f"{max(times) * 1e3:.1f} of {len(times)}), {found['tokens_per_s']:.0f} images/s, loss {losses[0]:.3f} to "
          f"{losses[-1]:.3f}, peak {found['peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
