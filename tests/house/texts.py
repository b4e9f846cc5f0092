#!/usr/bin/env python3
"""Lists what the program says and what its sources explain, to be read beside docs/glossary.md: a line each, with its
place.

usage: texts.py [--messages|--comments|--public] [--plain] [--sample N --seed S] [FILE ...]

--messages  every text of the C and CUDA sources that a user may read: string literals of two words or more, parts of
            one text joined (the default)
--comments  every comment of the sources
--public    comments of headers only, which is what callers read
--plain     without places, sorted: to be compared with another version's list
--sample N  N of them, drawn by seed S (1)
FILE        only these; default: all that git tracks outside tests/, bench/ and examples/
"""
import argparse
import random
import re
import subprocess

SKIPPED = ("tests/", "bench/", "examples/")
PIECE = r'"(?:\\.|[^"\\\n])*"'
# A literal and those that the compiler joins to it; format macros (PRIu64) may stand between.
LITERAL = re.compile(rf"{PIECE}(?:\s*(?:PRI[a-zA-Z0-9]+\s*)?{PIECE}|\s*PRI[a-zA-Z0-9]+)*")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
WORDS = re.compile(r"[A-Za-z]{2,}[ ,;:]+(?:%\S+ )*[a-z]{2,}")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--comments", action="store_true")
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*")
    return parser.parse_args()


def sources(args):
    if args.files:
        return args.files
    suffixes = ["*.h"] if args.public else ["*.c", "*.h", "*.cu", "*.cuh"]
    names = subprocess.run(["git", "ls-files", "--", *suffixes], capture_output=True, text=True, check=True).stdout
    return [name for name in names.split() if not name.startswith(SKIPPED)]


def messages(text):
    """(line, text) of each string that reads like a sentence or a part of one."""
    code = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), keep_strings(text))
    for found in LITERAL.finditer(code):
        start = code.rfind("\n", 0, found.start()) + 1
        if code[start:found.start()].lstrip().startswith("#include"):
            continue
        joined = "".join(part[1:-1] for part in re.findall(PIECE, found.group(0)))
        if WORDS.search(joined):
            yield code.count("\n", 0, found.start()) + 1, joined


def keep_strings(text):
    """The text, with what looks like a comment inside a string made harmless."""
    return re.sub(rf"/\*.*?\*/|//[^\n]*|{PIECE}", lambda m: m.group(0).replace("/*", "/ *").replace("//", "/ /")
                  if m.group(0)[0] == '"' else m.group(0), text, flags=re.S)


def comments(text):
    for found in COMMENT.finditer(keep_strings(text)):
        words = re.sub(r"^[ \t]*\*[ /]?", "", found.group(0).strip("/* \n"), flags=re.M)
        words = " ".join(words.split())
        if WORDS.search(words):
            yield text.count("\n", 0, found.start()) + 1, words


def main():
    args = arguments()
    find = comments if args.comments or args.public else messages
    found = []
    for name in sources(args):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        found += [words if args.plain else f"{name}:{line}: {words}" for line, words in find(text)]
    if args.sample:
        found = random.Random(args.seed).sample(found, min(args.sample, len(found)))
    print("\n".join(sorted(found) if args.plain else found))


if __name__ == "__main__":
    main()
