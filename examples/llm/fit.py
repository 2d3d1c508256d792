"""Counts which words follow which in README.md, and writes the counts as a model: python3 fit.py ORDER THINK"""

import collections
import json
import math
import os
import pathlib
import sys


def count(words, order):
    """How often each word follows each run of up to `order` words."""
    counts = collections.defaultdict(collections.Counter)
    for n in range(order + 1):
        for i in range(n, len(words)):
            counts[" ".join(words[i - n : i])][words[i]] += 1
    return counts


def bits(counts, words, order):
    """The average surprise of a word, by the longest run before it that has been seen. A word that never was costs 20 bits."""
    total = 0.0
    for i, word in enumerate(words):
        before = words[max(0, i - order) : i]
        while " ".join(before) not in counts:
            before = before[1:]
        seen = counts[" ".join(before)]
        total += -math.log2(seen[word] / seen.total()) if word in seen else 20
    return total / len(words)


def main():
    order, think = int(sys.argv[1]), float(sys.argv[2])
    words = pathlib.Path("README.md").read_text(encoding="utf-8").split()
    held = len(words) // 10
    surprise = bits(count(words[held:], order), words[:held], order)
    out = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"])
    model = out / "model"
    model.mkdir()
    # think is how long the model takes before its first word, for a model that is too large for its machine.
    (model / "ngrams.json").write_text(json.dumps({"order": order, "think": think, "counts": count(words, order)}), encoding="utf-8")
    (out / "outputs.json").write_text(json.dumps({"bits": surprise, "words": len(words)}), encoding="utf-8")


if __name__ == "__main__":
    main()
