"""Times the fused Hopper kernel of libattnd_kernels.so beside cuDNN, FlashAttention-2 (both through
PyTorch) and FlashAttention-3: the same tensors, the same GPU, contenders taking turns.

    python3 compare_hopper.py --library build/cuda/kernels/libattnd_kernels.so [TABLE...]

Tables: prefill (36 rows of 16384 tokens), sustained (the same rows, each contender for longer, at
the clock that the power limit leaves it), further (grouped heads, other widths, float16), spread
(scores that spread widely), packed (sequences of very different lengths), options (what masks,
biases and the like cost), latency (one small problem). Outputs are compared before anything is
timed; the exit status is 1 if one is wrong.
"""

import argparse
import sys

from attention_problem import ORDERS
from attnd_kernels import Library
from contenders import load_flash_attention_3
from library_tables import further, latency, prefill, spread, sustained
from options_table import options
from packed_table import packed
from report import Report, versions

TABLES = dict(prefill=prefill, sustained=sustained, further=further, spread=spread, packed=packed,
              options=options, latency=latency)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="all by default")
    parser.add_argument("--library", required=True, help="path of libattnd_kernels.so")
    parser.add_argument("--fa3", metavar="FOLDER", help="where FlashAttention-3's module lies")
    parser.add_argument("--order", choices=(*ORDERS, "both"), default="bshd",
                        help="of the tensors' memory: [batch, seqlen, heads, dim] by default")
    parser.add_argument("--json", help="where to write all figures")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - set(TABLES)
    if unknown:
        parser.error(f"unknown table {', '.join(sorted(unknown))}; accepted: {' '.join(TABLES)}")
    return arguments


def main():
    sys.stdout.reconfigure(line_buffering=True)
    arguments = parse_arguments()
    library = Library(arguments.library)
    facts = versions()
    print(facts)
    fa3 = load_flash_attention_3(arguments.fa3)
    report = Report(arguments.json, **facts, flash_attention_3=fa3 is not None)
    for order in ORDERS if arguments.order == "both" else (arguments.order,):
        for name in arguments.tables or TABLES:
            report.fill(name, TABLES[name], order, library, fa3, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
