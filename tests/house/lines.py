#!/usr/bin/env python3
"""Checks lines of C and CUDA sources: 100 columns, one statement per line (none joined by commas), no conditional
expression within another one, six parameters at most. `./dev lint` calls it.

usage: lines.py [--statistics] [FILE ...]      without files: all that git tracks
"""
import os
import re
import subprocess
import sys

COLUMNS, PARAMETERS = 100, 6
# Signatures that others prescribe: callbacks and functions of libraries, launchers of kernels (kernels: see is_kernel),
# and our public interface.
PRESCRIBED = re.compile(r"\.cu:pst_cuda_|^tests/cuda/fake|:dnnl_|^comm/launch/server\.c:on_|^comm/transport/ucx_guard\.c:keep$"
                        r"|^src/graph/builder\.c:pst_graph_add_")
CONTROL = {"if", "for", "while", "switch"}
TYPE_WORDS = {"const", "static", "struct", "union", "enum", "unsigned", "signed", "int", "char", "long", "short",
              "float", "double", "void", "volatile", "extern", "inline", "typedef", "register", "auto", "size_t",
              "__shared__", "_Thread_local", "_Atomic"}
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\.\.\.|\S")


def blank(text):
    """The text with comments, strings, characters and preprocessor lines blanked out; lines stay where they are."""
    def spaces(m):
        kept = re.sub(r"[^\n]", " ", m.group(0))
        return '""' + kept[2:] if m.group(0)[0] == '"' else "0" + kept[1:] if m.group(0)[0] == "'" else kept
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.M)


def tokens_of(text):
    line, at = 1, 0
    for m in TOKEN.finditer(text):
        line += text.count("\n", at, m.start())
        at = m.start()
        yield m.group(0), line


class Source:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf8") as f:
            self.text = f.read()
        self.findings = []
        self.tokens = list(tokens_of(blank(self.text)))
        self.functions = []    # (name, lines, parameters)
        self.match()

    def say(self, line, what):
        self.findings.append((line, what))

    def match(self):
        """Partners of brackets; braces are blocks or values."""
        self.partner, stack = {}, []
        for i, (t, _) in enumerate(self.tokens):
            if t in "([{":
                stack.append(i)
            elif t in ")]}" and stack:
                j = stack.pop()
                self.partner[i], self.partner[j] = j, i

    def is_value(self, i):
        """Whether the brace at i opens an initializer or a compound literal."""
        before = self.tokens[i - 1][0] if i else ";"
        if before in ("=", ",", "(", "[", "{") or before == "]":
            return before != "{" or i - 1 in self.values
        if before == "return":
            return True
        if before == ")":
            j = self.partner.get(i - 1, 0)
            head = self.tokens[j - 1][0] if j else ";"
            return not (head == ")" or (re.match(r"[A-Za-z_]", head) and head not in ("return", "sizeof")))
        return False

    def is_type_body(self, i):
        words = [t for t, _ in self.tokens[max(0, i - 4):i]]
        return bool({"struct", "union", "enum"} & set(words)) and ";" not in words[-2:] and ")" not in words[-2:]

    def check(self):
        for n, text in enumerate(self.text.split("\n"), 1):
            if len(text) > COLUMNS:
                self.say(n, "%d columns; %d are the most" % (len(text), COLUMNS))
        self.values, self.bodies = set(), set()
        for i, (t, _) in enumerate(self.tokens):
            if t == "{" and self.is_value(i):
                self.values.add(i)
            elif t == "{" and self.is_type_body(i):
                self.bodies.add(i)
        self.check_statements()
        self.check_conditionals()
        self.check_functions()
        return self.findings

    # --- one statement per line ---

    def check_statements(self):
        start, i, blocks = 0, 0, []
        while i < len(self.tokens):
            t = self.tokens[i][0]
            if t in "([" or (t == "{" and (i in self.values or self.is_enum(i))):
                i = self.partner.get(i, i) + 1
                continue
            if t == ";":
                self.check_statement(start, i)
                start = i + 1
            elif t in "{}":
                start = i + 1
            i += 1

    def is_enum(self, i):
        return "enum" in [t for t, _ in self.tokens[max(0, i - 2):i]]

    def check_statement(self, start, end):
        i = start
        while i < end:    # what stands before the statement: labels, else, the head of an if
            t = self.tokens[i][0]
            if t in ("else", "do"):
                i += 1
            elif t in CONTROL and i + 1 in self.partner:
                i = self.partner[i + 1] + 1
            elif t == "case" or (t == "default" and self.tokens[i + 1][0] == ":"):
                while i < end and self.tokens[i][0] != ":":
                    i += 1
                i += 1
            else:
                break
        if i >= end or self.is_declaration(i, end):
            return
        k = i
        while k < end:
            t = self.tokens[k][0]
            if t in "([{" and k in self.partner:
                k = self.partner[k] + 1
                continue
            if t == "<" and self.path.endswith((".cu", ".cuh")):
                return    # a template's arguments
            if t == ",":
                self.say(self.tokens[k][1], "statements joined by a comma")
                return
            k += 1

    def is_declaration(self, i, end):
        words = [t for t, _ in self.tokens[i:min(end, i + 4)]]
        if words[0] in TYPE_WORDS:
            return True
        if not re.match(r"[A-Za-z_]", words[0]) or words[0] in ("return", "goto", "case"):
            return False
        rest = words[1:]
        while rest and rest[0] in ("*", "const"):
            rest = rest[1:]
        if not rest or not re.match(r"[A-Za-z_]", rest[0]):
            return len(rest) > 1 and rest[0] == "(" and rest[1] == "*"
        return True

    # --- conditional expressions ---

    def check_conditionals(self):
        """A ? with another one in its condition or its operands."""
        said = set()
        for i, (t, line) in enumerate(self.tokens):
            if t == "?" and line not in said and self.holds_another(i):
                said.add(line)
                self.say(line, "a conditional expression within another one")

    def holds_another(self, i):
        for step in (1, -1):
            k = i + step
            while 0 <= k < len(self.tokens):
                t = self.tokens[k][0]
                opens, closes = ("([{", ")]}") if step > 0 else (")]}", "([{")
                if t in opens and k in self.partner:
                    a, b = sorted((k, self.partner[k]))
                    if step > 0 and any(u == "?" for u, _ in self.tokens[a:b]):
                        return not (self.tokens[a][0] == "{" and a not in self.values)
                    k = self.partner[k] + step
                    continue
                if t in closes or t in (";", ",") or (step < 0 and t in ("=", "return", "{", "}")):
                    break
                if t == "?" and step > 0:
                    return True
                k += step
        return False

    # --- functions ---

    def check_functions(self):
        depth = 0
        i = 0
        while i < len(self.tokens):
            t, line = self.tokens[i]
            if t == "{" and (i in self.values or self.is_enum(i)):
                i = self.partner.get(i, i) + 1
                continue
            if t == "{" and depth == 0 and i not in self.bodies:
                i = self.partner.get(i, i) + 1
                continue
            if t == "(" and i and i in self.partner:
                self.check_parameters(i)
                i = self.partner[i] + 1
                continue
            i += 1

    def is_kernel(self, i):
        """Whether what has its name at i is launched, so that its arguments are copied one by one."""
        while i and self.tokens[i][0] not in (";", "}"):
            if self.tokens[i][0] == "__global__":
                return True
            i -= 1
        return False

    def check_parameters(self, i):
        name, line = self.tokens[i - 1]
        end = self.partner[i]
        if name == ")":    # a pointer to a function
            j = self.partner[i - 1]
            inner = [t for t, _ in self.tokens[j + 1:i - 1] if re.match(r"[A-Za-z_]", t)]
            name = inner[0] if inner else "?"
        elif not re.match(r"[A-Za-z_]", name) or name in CONTROL or name == "__attribute__":
            return
        n, k = 1, i + 1
        while k < end:
            if self.tokens[k][0] in "([{":
                k = self.partner[k]
            elif self.tokens[k][0] == ",":
                n += 1
            k += 1
        if n > PARAMETERS and not PRESCRIBED.search("%s:%s" % (self.path, name)) and not self.is_kernel(i - 1):
            self.say(line, "%s: %d parameters; %d are the most" % (name, n, PARAMETERS))
        after = self.tokens[end + 1][0] if end + 1 < len(self.tokens) else ";"
        if after == "{" and end + 1 in self.partner:
            last = self.tokens[self.partner[end + 1]][1]
            self.functions.append((name, last - line + 1, n))


def statistics(sources):
    rooms = {}
    for s in sources:
        rooms.setdefault(os.path.dirname(s.path), []).append(s)

    def row(name, group):
        lengths = sorted(n for s in group for _, n, _ in s.functions) or [0]
        print("%-22s %5d files %6d lines %5d functions, lines of one: median %2d, p90 %2d, longest %3d" % (
            name, len(group), sum(s.text.count("\n") for s in group), len(lengths), lengths[len(lengths) // 2],
            lengths[len(lengths) * 9 // 10], lengths[-1]))
    for room in sorted(rooms):
        row(room, rooms[room])
    row("all", sources)
    row("all but tests", [s for s in sources if not s.path.startswith("tests/")])


def main(arguments):
    files = [a for a in arguments if not a.startswith("--")]
    if not files:
        listed = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.cu", "*.cuh"], capture_output=True, text=True,
                                check=True).stdout.split()
        files = [f for f in listed if os.path.exists(f)]
    sources = [Source(f) for f in files]
    n = 0
    for s in sources:
        for line, what in sorted(s.check()):
            print("%s:%d: %s" % (s.path, line, what))
            n += 1
    if "--statistics" in arguments:
        statistics(sources)
    print("%d files, %d findings" % (len(sources), n))
    return 1 if n or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
