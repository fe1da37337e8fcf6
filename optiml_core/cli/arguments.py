"""The command line's grammar: docs/command-line.md describes it, this defines it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from optiml_core import __version__
from optiml_core.cli.failure import bad_input

DEVICE_HELP = "auto, emulator, cuda:N or recorded:FOLDER (default: auto)"


class Parser(argparse.ArgumentParser):
    """Reports usage errors like every other bad input instead of exiting by itself."""

    def error(self, message: str) -> NoReturn:
        raise bad_input(message, cure=f"{self.prog} --help")


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before ``--`` and the compile flags behind it."""
    if "--" in arguments:
        index = list(arguments).index("--")
        return list(arguments[:index]), list(arguments[index + 1 :])
    return list(arguments), []


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-p", dest="build_dir", metavar="BUILD_DIR", help="folder with compile_commands.json")
    parser.add_argument("--workload", metavar="FILE.toml", help="workload declarations")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--progress", choices=["auto", "json", "none"], default="auto", help="progress on stderr")
    parser.epilog = "Compile flags follow after `--`."


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help=DEVICE_HELP)
    parser.add_argument("--gpu", metavar="NAME|sm_XX", help="the GPU that predictions and occupancy are for")


def make_parser() -> Parser:
    """The parser of `optiml`."""
    parser = Parser(prog="optiml", description="Verified optimization of CUDA kernels.")
    parser.add_argument("--version", action="version", version=f"optiml {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    doctor = commands.add_parser("doctor", help="what works here, what does not, how to fix it")
    doctor.add_argument("--json", action="store_true")

    kernels = commands.add_parser("kernels", help="the kernels of a file, their launches and workloads")
    kernels.add_argument("file")
    _common(kernels)

    profile = commands.add_parser("profile", help="what limits a kernel")
    profile.add_argument("target", metavar="FILE[:KERNEL]")
    profile.add_argument("--kernel")
    profile.add_argument(
        "--report", action="append", metavar="R.ncu-rep", help="read Nsight Compute reports instead of running"
    )
    _device(profile)
    _common(profile)

    verify = commands.add_parser("verify", help="is the candidate the same function as the original?")
    verify.add_argument("original")
    verify.add_argument("candidate")
    verify.add_argument("--kernel")
    verify.add_argument("--quick", action="store_true", help="the quick gate instead of the full verdict")
    verify.add_argument("--allow", default="", help="comma-separated: fast-math, tf32, no-alias, aligned, nan")
    verify.add_argument("--seed", type=int, default=0)
    _device(verify)
    _common(verify)

    optimize = commands.add_parser("optimize", help="search for a faster, verified variant")
    optimize.add_argument("target", metavar="FILE[:KERNEL]")
    optimize.add_argument("--kernel")
    optimize.add_argument("--seconds", type=float, help="budget (default: 120 with a GPU, 60 on the emulator)")
    optimize.add_argument("--evaluations", type=int, help="budget in evaluated variants")
    optimize.add_argument("--seed", type=int, default=0)
    optimize.add_argument("--rewrites-only", action="store_true", help="no language model, whatever is configured")
    optimize.add_argument("--rewrite", action="append", default=[], metavar="NAME", help="try only this rewrite")
    optimize.add_argument("--allow", default="", help="comma-separated: fast-math, tf32, no-alias, aligned, nan")
    optimize.add_argument("--profile", choices=["all", "best", "none"], default="best")
    optimize.add_argument("--patch", metavar="OUT.diff", help="write the patch here")
    optimize.add_argument("--apply", action="store_true", help="write the result into the file")
    optimize.add_argument("--report", metavar="OUT.html", help="write a self-contained report")
    optimize.add_argument("--jobs", type=int, help="evaluation processes (default: one per core, at most 8)")
    optimize.add_argument("--fresh", action="store_true", help="do not reuse results of an earlier search")
    _device(optimize)
    _common(optimize)

    setup_gpu = commands.add_parser("setup-gpu", help="install PyCUDA and try it")
    setup_gpu.add_argument("--wheels", metavar="DIR", help="install from this folder, without a network")

    synthesize = commands.add_parser("synthesize", help="a checked kernel from a description or a comment")
    synthesize.add_argument("description", metavar='"TEXT" | FILE:LINE')
    synthesize.add_argument("--output", metavar="F.cu", help="write the kernel here")
    synthesize.add_argument("--recipes-only", action="store_true", help="ask no language model")
    synthesize.add_argument("--samples", type=int, default=2, metavar="N", help="kernels asked of each model (2)")
    _device(synthesize)
    _common(synthesize)

    _train_mixture(commands.add_parser("train-mixture", help="train router and interaction layers of frozen experts"))

    _training_pairs(commands.add_parser("training-pairs", help="verified training pairs from our rewrites and recipes"))

    bench = commands.add_parser("bench", help="measure what is claimed")
    bench.add_argument("suite", choices=["kernels", "synthesis"])
    bench.add_argument("--output", metavar="F", help="write the results here (kernels: JSON; synthesis: Markdown)")
    bench.add_argument("--only", default="", metavar="NAMES", help="a comma-separated choice of kernels or prompts")
    bench.add_argument("--seconds", type=float, default=20.0, help="kernels: search budget for each (default: 20)")
    bench.add_argument("--recipes-only", action="store_true", help="synthesis: ask no language model")
    bench.add_argument("--samples", type=int, default=4, metavar="N", help="synthesis: kernels of each model (4)")
    bench.add_argument("--gpu", metavar="NAME|sm_XX", help="kernels: the GPU that predictions are for")
    bench.add_argument("--device", default="auto", help=DEVICE_HELP)
    bench.add_argument("--json", action="store_true", help="print one JSON object on stdout")

    server = commands.add_parser("server", help="run the language server")
    server.add_argument("--tcp", type=int, metavar="PORT", help="listen on 127.0.0.1:PORT instead of stdio")
    return parser


def _train_mixture(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA.jsonl", help='lines of {"prompt": "...", "answer": "..."}')
    parser.add_argument(
        "--expert", action="append", required=True, metavar="MODEL", help="a preset, folder or GGUF file; give several"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="checkpoint, log and adapter; resumed if there")
    parser.add_argument("--encoder", metavar="DIR", help="sentence encoder for the router (default: hashed words)")
    parser.add_argument("--steps", type=_positive, default=1000)
    parser.add_argument("--batch", type=_positive, default=8, help="pairs a forward")
    parser.add_argument("--accumulate", type=_positive, default=1, help="forwards a step")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--active", type=_positive, default=2, help="experts active for a prompt, the primary included")
    parser.add_argument("--stacks", type=_positive, default=4, help="stacks of layers; interaction after all but one")
    parser.add_argument("--shared", type=_positive, help="size of the shared space (default: the smallest hidden size)")
    parser.add_argument("--heads", type=_positive, default=8)
    parser.add_argument("--router-only", action="store_true", help="no interaction layers")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda:N")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16", "float16"])
    parser.add_argument("--held-out", type=_share, default=0.05, help="share of the pairs' groups (default: 0.05)")
    parser.add_argument("--longest", type=_positive, default=8192, help="bytes of a pair; longer ones are left out")
    parser.add_argument("--checkpoint-every", type=_positive, default=100, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--progress", choices=["auto", "none"], default="auto", help="progress on stderr")


def _training_pairs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", metavar="PAIRS.jsonl", help="where they go; an earlier run's file is gone on with")
    parser.add_argument("--pairs", type=_positive, default=20_000, help="how many it should hold (default: 20000)")
    parser.add_argument("--workers", type=_positive, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--progress", choices=["auto", "none"], default="auto", help="progress on stderr")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and 1")
    return value
