#!/usr/bin/env python3
"""Tokenizers: `penstock tokenize` beside tiktoken and Hugging Face's tokenizers, one thread each, interleaved.

    tokenizer.py --bpe DIR --wordpiece DIR [--english FILE] [--code FILE] [--megabytes 10] [--rounds 5] [--ids | --speed]
                 [--python PYTHON]

DIR of --bpe has GPT-2's encoder.json and vocab.bpe (or vocab.json and merges.txt), DIR of --wordpiece a BERT's
vocab.txt. English and C code are --megabytes MB of FILE, by default of this machine's README and text files in /usr/share/doc and
/usr/include. Every program encodes the text in memory; ids are compared first, also of 1 MB of random characters
(those that Python's Unicode has) with the split patterns of GPT-2, cl100k, Llama 3 and Qwen 2 over GPT-2's ranks. Each
peer runs in its faster form: the whole text at once, or documents of 64 KiB. The median of the rounds counts.

Needs a Python with tiktoken and tokenizers (--python), as `pip install tiktoken tokenizers` gives one."""

import argparse
import base64
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata

import needs
from needs import PENSTOCK

PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
              r"|\s*[\r\n]|\s+(?!\S)|\s",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
              r"|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
             r"|\s+(?!\S)|\s+",
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bpe")
    p.add_argument("--wordpiece")
    p.add_argument("--english")
    p.add_argument("--code")
    p.add_argument("--megabytes", type=float, default=10)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--ids", action="store_true", help="compare only ids")
    p.add_argument("--speed", action="store_true", help="compare only speeds")
    p.add_argument("--python", default=sys.executable, help="Python with tiktoken and tokenizers")
    p.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


# --- texts ---

def collect(folder, names, limit):
    """Text of the files below `folder` whose names match, each once, in the order of their names."""
    parts, size, seen = [], 0, set()
    paths = sorted(os.path.join(where, name) for where, _, files in os.walk(folder) for name in files)
    for path in paths:
        if size > limit or not re.search(names, path):
            continue
        try:
            with open(path, encoding="utf8") as f:
                text = f.read()
        except (OSError, UnicodeDecodeError):
            continue
        if text in seen:
            continue
        seen.add(text)
        parts.append(text)
        size += len(text)
    return "".join(parts)[:limit]


def text_of(path, folder, names, limit):
    if path:
        with open(path, encoding="utf8") as f:
            text = f.read()
        return (text * (limit // len(text) + 1))[:limit]
    return collect(folder, names, limit)


def random_text(characters, seed):
    draw = random.Random(seed)
    known = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    often = " \n\r\t'.,09azAZ" + "".join(chr(c) for c in (0xa0, 0x2028, 0x3000, 0x85, 0x17f, 0x180e, 0x301, 0x661))
    return "".join(draw.choice(often if draw.random() < 0.4 else known) for _ in range(characters))


# --- tokenizers of peers ---

def bytes_of_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}


def first_of(folder, *names):
    return next(path for path in (os.path.join(folder, name) for name in names) if os.path.exists(path))


def bpe_files(folder):
    return first_of(folder, "encoder.json", "vocab.json"), first_of(folder, "vocab.bpe", "merges.txt")


def ranks_of(folder):
    """Ids by bytes, without tokens that no merge makes."""
    with open(bpe_files(folder)[0], encoding="utf8") as f:
        ids = json.load(f)
    byte = bytes_of_characters()
    return {bytes(byte[c] for c in token): i for token, i in ids.items() if token != "<|endoftext|>"}


def load_tiktoken(folder, pattern):
    import tiktoken
    encoding = tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=ranks_of(folder), special_tokens={})
    return encoding.encode_ordinary


def fast(t):
    """Encoding without offsets, where this version has it."""
    if hasattr(t, "encode_batch_fast"):
        return lambda text: t.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return lambda text: t.encode(text, add_special_tokens=False).ids


def load_tokenizers(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    vocabulary, merges = bpe_files(folder)
    t = Tokenizer(models.BPE.from_file(vocabulary, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return fast(t)


def load_wordpiece(folder):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    t = Tokenizer(models.WordPiece.from_file(os.path.join(folder, "vocab.txt"), unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return fast(t)


def load(name, folder, pattern):
    if name == "tiktoken":
        return load_tiktoken(folder, pattern)
    return load_wordpiece(folder) if name == "wordpiece" else load_tokenizers(folder)


def peer():
    """Answers requests, one JSON per line: a tokenizer, a file, a form; the seconds, or the ids in a file."""
    loaded = {}
    for line in sys.stdin:
        r = json.loads(line)
        key = (r["name"], r["folder"], r["pattern"])
        encode = loaded.setdefault(key, None) or load(*key)
        loaded[key] = encode
        with open(r["file"], encoding="utf8", newline="") as f:
            text = f.read()
        parts = [text] if r["form"] == "whole" else [text[i:i + 65536] for i in range(0, len(text), 65536)]
        begin = time.perf_counter()
        ids = [encode(part) for part in parts]
        seconds = time.perf_counter() - begin
        if r.get("ids"):
            with open(r["ids"], "w") as f:
                f.write(" ".join(str(i) for part in ids for i in part) + "\n")
        print(json.dumps(seconds), flush=True)


class Peer:
    def __init__(self, python):
        environment = dict(os.environ, TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
        self.process = subprocess.Popen([python, __file__, "--peer", "--bpe", "."], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, name, folder, file, form="whole", pattern="gpt2", ids=None):
        request = dict(name=name, folder=folder, file=file, form=form, pattern=pattern, ids=ids)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"tokenizer.py: {name} failed, see above")
        return json.loads(answer)


# --- penstock ---

def penstock_ids(tokenizer, file, out):
    with open(out, "w") as f:
        subprocess.run([PENSTOCK, "tokenize", "--tokenizer", tokenizer, "--ids", file], stdout=f, check=True)


def penstock_seconds(tokenizer, file):
    text = subprocess.run([PENSTOCK, "tokenize", "--tokenizer", tokenizer, file], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    return float(re.search(r"^time +([\d.]+) s", text, re.M).group(1))


# --- comparison ---

def differences(a, b):
    with open(a) as f, open(b) as g:
        x, y = f.read().split(), g.read().split()
    if x == y:
        return f"identical, {len(x)} ids"
    at = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
    return f"DIFFERENT from id {at} of {len(x)}: {x[at:at + 4]}, penstock {y[at:at + 4]}"


def compare_ids(peer_, cases, work):
    for what, name, folder, tokenizer, file, pattern in cases:
        theirs, ours = os.path.join(work, "theirs"), os.path.join(work, "ours")
        peer_.ask(name, folder, file, pattern=pattern, ids=theirs)
        penstock_ids(tokenizer, file, ours)
        print(f"{what:34} {name:11} {differences(theirs, ours)}", flush=True)


def race(peer_, what, names, folder, file, rounds):
    """Medians over interleaved rounds; the first round of each program does not count."""
    times = {}
    for n in range(rounds + 1):
        for name, form in [(name, form) for name in names for form in ("whole", "parts")] + [("penstock", "")]:
            seconds = penstock_seconds(folder, file) if name == "penstock" else peer_.ask(name, folder, file, form)
            if n:
                times.setdefault((name, form), []).append(seconds)
    medians = {key: statistics.median(t) for key, t in times.items()}
    ours, best = medians.pop(("penstock", "")), min(medians.values())
    size = os.path.getsize(file) / 1e6
    for (name, form), seconds in medians.items():
        print(f"{what:34} {name:11} {form:6} {size / seconds:8.1f} MB/s")
    print(f"{what:34} {'penstock':11} {'':6} {size / ours:8.1f} MB/s, {best / ours:.2f} x the fastest peer", flush=True)


def write_ranks(folder, path):
    with open(path, "wb") as f:
        for token, i in sorted(ranks_of(folder).items(), key=lambda item: item[1]):
            f.write(base64.b64encode(token) + b" %d\n" % i)


def main():
    args = arguments()
    if args.peer:
        peer()
        return
    needs.check()
    if not args.bpe:
        raise SystemExit("tokenizer.py: needs --bpe DIR, with GPT-2's encoder.json and vocab.bpe")
    limit = int(args.megabytes * 1e6)
    with tempfile.TemporaryDirectory() as work:
        files = {name: os.path.join(work, name) for name in ("English", "C code", "random characters")}
        texts = {"English": text_of(args.english, "/usr/share/doc", r"[.](md|txt)$|/README[^/.]*$", limit),
                 "C code": text_of(args.code, "/usr/include", r"[.]h$", limit),
                 "random characters": random_text(400000, 1)}
        for name, text in texts.items():
            with open(files[name], "w", encoding="utf8", newline="") as f:
                f.write(text)
        peer_, cases = Peer(args.python), []
        for what, file in files.items():
            for pattern in PATTERNS:
                ranks = os.path.join(work, f"{pattern}.tiktoken")
                if not os.path.exists(ranks):
                    write_ranks(args.bpe, ranks)
                cases.append((f"{what}, {pattern}", "tiktoken", args.bpe, ranks, file, pattern))
            cases.append((f"{what}, BPE", "tokenizers", args.bpe, args.bpe, file, "gpt2"))
            if args.wordpiece:
                cases.append((f"{what}, WordPiece", "wordpiece", args.wordpiece, args.wordpiece, file, ""))
        if not args.speed:
            compare_ids(peer_, cases, work)
        for what in () if args.ids else ("English", "C code"):
            race(peer_, f"{what}, BPE", ["tiktoken", "tokenizers"], args.bpe, files[what], args.rounds)
            if args.wordpiece:
                race(peer_, f"{what}, WordPiece", ["wordpiece"], args.wordpiece, files[what], args.rounds)


if __name__ == "__main__":
    main()
