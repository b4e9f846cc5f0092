#!/usr/bin/env python3
"""Baseline for a byte-level language model: validation loss in nats per byte of an add-one bigram model, on the same
split as `data: {kind: text}` makes (validation = the last fraction of all bytes).

    bench/bigram.py [--validation 0.1] FILE ..."""

import argparse
import math


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--validation", type=float, default=0.1)
    parser.add_argument("file", nargs="+")
    args = parser.parse_args()
    text = b"".join(open(name, "rb").read() for name in args.file)
    cut = len(text) - int(len(text) * args.validation)
    train, validation = text[:cut], text[cut:]
    count = [[1] * 256 for _ in range(256)]
    for a, b in zip(train, train[1:]):
        count[a][b] += 1
    total = [sum(row) for row in count]
    loss = -sum(math.log(count[a][b] / total[a]) for a, b in zip(validation, validation[1:])) / (len(validation) - 1)
    print(f"{loss:.4f} nats per byte over {len(validation) - 1} bytes ({len(train)} bytes trained on)")


if __name__ == "__main__":
    main()
