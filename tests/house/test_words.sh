#!/bin/sh
# test: label=quick timeout=30 isa=any
# No text that a user reads has a word that docs/glossary.md rules out: messages of the sources, and documents. Each row of
# its second table is a list of phrases; those in parentheses are explained, not searched for.
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
limit=${LIMIT:-0}
command -v python3 >/dev/null 2>&1 || {
    echo "skipped: there is no python3"
    exit 77
}
cd "$source_dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^\| not \| but \|/ { table = 1; next } table && /^\| / { split($0, cell, " *[|] *"); print cell[2] }' docs/glossary.md |
    sed 's/ *([^)]*)//g' | tr ',' '\n' | sed 's/^ *//; s/ *$//; /^$/d' >"$work/phrases"
[ "$(wc -l <"$work/phrases")" -ge 15 ] || {
    echo "docs/glossary.md has lost its table of words"
    exit 1
}
{
    tests/house/texts.py --messages
    find README.md CONTRIBUTING.md docs -name '*.md' ! -name glossary.md ! -path 'docs/history/*' -exec grep -Hn . {} +
} >"$work/texts"

echo "x.c:1: 4 layouts cannot be had" | grep -qiwFf "$work/phrases" || {
    echo "the search finds nothing"
    exit 1
}
found=$(grep -ciwFf "$work/phrases" "$work/texts" || true)
grep -iwFf "$work/phrases" "$work/texts" | head -40 || true
echo "$found texts with words that docs/glossary.md rules out; at most $limit"
[ "$found" -le "$limit" ]
