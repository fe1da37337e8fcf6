"""Does a mixture of small frozen models pay? Held-out loss, ablations, samples, speed and memory, at equal tokens.

    python benchmarks/mixture_proof.py PAIRS.jsonl --expert smollm2=FILE.gguf --expert gemma3=FILE.gguf --output O.json

Every trained run sees the same pairs in the same order, with the same number of steps, trained weights of about the
same number and the same rates:

    itself:NAME   the adapter on one expert alone: its peer is the same expert, so that all is there but another mind
    peer:NAME     the primary is always NAME, its peer the other expert
    mixture       the router chooses the primary, the other is its peer
    router        the router chooses; no interaction

``itself`` against ``peer`` says what another model's hidden states add to what an adapter of this size adds anyway.
Losses are bits a byte of the held-out answers, since the experts' tokens differ. ``--samples`` draws answers for
held-out prompts from the best expert with its own adapter and from the mixture, as many from each;
``benchmarks/mixture_samples.py`` verifies them. The GGUF files are dequantised to bfloat16 (float32 on a CPU).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import evolve

from optiml_core.mixture_of_thoughts.adapter_files import load_adapter, save_adapter
from optiml_core.mixture_of_thoughts.decoding import Decoder, Sampling, generate
from optiml_core.mixture_of_thoughts.experts import CachedExpert, Expert
from optiml_core.mixture_of_thoughts.losses import held_out_bits_per_byte
from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings, Pair
from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder
from optiml_core.mixture_of_thoughts.training import Training, TrainingSettings, run_training
from optiml_core.mixture_of_thoughts.training_data import TrainingData, TrainingPair, read_training_data
from optiml_core.records import Failure

STOP = (b"\n```\n",)


def load_expert(name: str, path: Path, device: str, begins: bool = False) -> Expert:
    """``begins``: a beginning-of-text token stands before every text, whatever the tokenizer says of itself."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    gguf = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = str(path.parent if gguf else path)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **gguf)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype, **gguf)
    return Expert(name, model.to(device), tokenizer, (tokenizer.bos_token_id,) if begins else None)


def load_experts(options: argparse.Namespace) -> list[Expert]:
    named = [one.partition("=") for one in options.expert]
    return [load_expert(name, Path(path), options.device, name in options.begin) for name, _, path in named]


def mixture_of(experts: list[Expert], device: str, seed: int, active: int = 2, interaction: bool = True) -> Mixture:
    torch.manual_seed(seed)
    settings = MixtureSettings(stacks=4, active=min(active, len(experts)), interaction=interaction)
    mixture = Mixture(experts, HashedWordsEncoder(), settings)
    mixture.to(device)
    return mixture


def runs_of(experts: list[Expert], device: str, seed: int) -> dict[str, tuple[Callable[[], Mixture], int | None]]:
    """Every trained run: how its mixture is made and which expert leads (None: the router's choice)."""
    found: dict[str, tuple[Callable[[], Mixture], int | None]] = {}
    for index, expert in enumerate(experts):
        again = Expert(f"{expert.name}-again", expert.model, expert.tokenizer, expert.start)
        found[f"itself:{expert.name}"] = (lambda e=expert, a=again: mixture_of([e, a], device, seed), 0)
        found[f"peer:{expert.name}"] = (lambda: mixture_of(experts, device, seed), index)
    found["mixture"] = (lambda: mixture_of(experts, device, seed), None)
    found["router"] = (lambda: mixture_of(experts, device, seed, active=1, interaction=False), None)
    return found


def held_out(mixture: Mixture, data: TrainingData, count: int, batch: int, primary: int | None) -> float:
    return held_out_bits_per_byte(mixture, [one.pair for one in spread(data.held_out, count)], batch, primary)


def spread(pairs: tuple[TrainingPair, ...], count: int) -> tuple[TrainingPair, ...]:
    """``count`` pairs at even distances: neighbours come from one kernel."""
    return pairs[:: max(1, len(pairs) // count)][:count]


def train(
    name: str,
    made: tuple[Callable[[], Mixture], int | None],
    data: TrainingData,
    settings: TrainingSettings,
    count: int,
) -> tuple[Mixture, dict[str, Any]]:
    make, primary = made
    mixture = make()
    training = Training(mixture, evolve(settings, primary=primary))
    log: list[Mapping[str, Any]] = []
    started = time.perf_counter()
    failure = run_training(training, [one.pair for one in data.trained], (), log.append)
    seconds = time.perf_counter() - started
    if failure is not None:
        print(f"{name}: {failure.message}", flush=True)
        return mixture, {"failed": failure.message}
    trained = [p for p in mixture.parameters() if p.requires_grad]
    bits = held_out(mixture, data, count, settings.batch, primary)
    found = {
        "held_out": bits,
        "weights": sum(p.numel() for p in trained),
        "seconds": seconds,
        "tokens": sum(entry["tokens"] for entry in log),
        "tokens_per_second": sum(entry["tokens"] for entry in log) / seconds,
        "primaries_last_steps": [sum(e["primaries"][i] for e in log[-20:]) for i in range(len(mixture.experts))],
        "gates": log[-1]["gates"],
        "trained_bits": [round(entry["bits_per_byte"], 4) for entry in log],
    }
    print(f"{name}: held out {bits:.4f}, {seconds:.0f} s", flush=True)
    return mixture, found


def ablate(mixture: Mixture, data: TrainingData, count: int, batch: int) -> dict[str, float]:
    """The trained mixture without its interaction, and led by each expert instead of the router's choice."""
    found = {}
    gates = [layer.gates.detach().clone() for layer in mixture.interactions]
    for index, expert in enumerate(mixture.experts):
        found[f"led by {expert.name}"] = held_out(mixture, data, count, batch, index)
    with torch.no_grad():
        for layer in mixture.interactions:
            layer.gates.zero_()
        found["interaction off, routed"] = held_out(mixture, data, count, batch, None)
        for layer, gate in zip(mixture.interactions, gates, strict=True):
            layer.gates.copy_(gate)
    return found


def speed_and_memory(mixture: Mixture, prompt: bytes, tokens: int, device: str) -> dict[str, Any]:
    """Greedy decoding with caches, one prompt: each expert alone, and the mixture led by each."""
    found: dict[str, Any] = {}

    def timed(name: str, step: Callable[[int], torch.Tensor], first: torch.Tensor) -> None:
        logits = first
        for _ in range(8):
            logits = step(int(logits.argmax()))
        started = time.perf_counter()
        for _ in range(tokens):
            logits = step(int(logits.argmax()))
        found[f"{name}, tokens/s"] = tokens / (time.perf_counter() - started)

    with torch.no_grad():
        for index, expert in enumerate(mixture.experts):
            ids = expert.tokenizer(prompt.decode(), add_special_tokens=False)["input_ids"]
            _reset(device)
            reader = CachedExpert(expert, ())
            start, _ = reader.read([*expert.start, *ids])
            timed(f"{expert.name} alone", lambda token, r=reader: r.read((token,))[0][0, -1], start[0, -1])
            found[f"{expert.name} weights, bytes"] = sum(
                p.numel() * p.element_size() for p in expert.model.parameters()
            )
            found[f"{expert.name} alone, extra bytes"] = _extra(device)
            _reset(device)
            decoder = Decoder(mixture, prompt, index)
            timed(f"mixture led by {expert.name}", lambda token, d=decoder: d.step(token), decoder.logits[-1])
            found[f"mixture led by {expert.name}, extra bytes"] = _extra(device)
            del decoder, reader
    found["adapter weights, bytes"] = sum(p.numel() * p.element_size() for p in mixture.parameters())
    return found


_HELD: dict[str, int] = {}


def _reset(device: str) -> None:
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        _HELD["before"] = torch.cuda.memory_allocated()


def _extra(device: str) -> int | None:
    """Bytes on the GPU at the peak, above what was there before: caches, activations."""
    return None if device == "cpu" else torch.cuda.max_memory_allocated() - _HELD["before"]


def draw_samples(
    systems: Mapping[str, tuple[Mixture, int | None]],
    prompts: list[tuple[int, Pair]],
    count: int,
    tokens: int,
    until: float,
) -> list[dict[str, Any]]:
    """``count`` answers to each prompt from each system, prompt by prompt, so that a stop leaves equal numbers."""
    found = []
    for line, pair in prompts:
        if time.monotonic() > until:
            break
        for name, (mixture, primary) in systems.items():
            for number in range(count):
                sampling = Sampling(tokens=tokens, temperature=0.6, top_p=0.95, seed=1000 * line + number, stop=STOP)
                answer = b"".join(generate(mixture, pair.prompt, sampling, primary=primary))
                found.append(
                    {"system": name, "line": line, "number": number, "answer": answer.decode("utf-8", "replace")}
                )
    return found


def sample_in_process(
    number: int, processes: int, options: argparse.Namespace, folder: str, best: str, until: float
) -> None:
    """One of several processes that share the GPU: decoding one token at a time leaves it idle."""
    torch.set_num_threads(1)
    experts = load_experts(options)
    data = _data(options)
    by_name = {expert.name: index for index, expert in enumerate(experts)}
    runs = runs_of(experts, options.device, options.seed)
    systems: dict[str, tuple[Mixture, int | None]] = {}
    for name in (f"itself:{best}", f"peer:{best}", "mixture"):
        mixture = runs[name][0]()
        failure = load_adapter(mixture, Path(folder) / f"{name.replace(':', '-')}.safetensors")
        assert failure is None, failure
        systems[name] = (mixture.eval(), runs[name][1])
    systems[f"frozen:{best}"] = (mixture_of([experts[by_name[best]]], options.device, 0, 1, False).eval(), 0)
    prompts = [(one.line, one.pair) for one in spread(data.held_out, options.prompts)][number::processes]
    found = draw_samples(systems, prompts, options.samples, options.sample_tokens, time.monotonic() + until)
    (Path(folder) / f"samples-{number}.json").write_text(json.dumps(found))


def _data(options: argparse.Namespace) -> TrainingData:
    data = read_training_data(Path(options.pairs), 0.08, options.longest)
    if isinstance(data, Failure):
        raise SystemExit(f"{data.file}:{data.line}: {data.message}")
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs")
    parser.add_argument("--expert", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument(
        "--begin", action="append", default=[], metavar="NAME", help="it wants a beginning-of-text token"
    )
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--longest", type=int, default=2500, help="bytes of a pair")
    parser.add_argument("--held-out", type=int, default=192, help="pairs that the held-out loss is measured on")
    parser.add_argument("--only", help="comma-separated runs")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=0, help="answers drawn for each prompt from each system")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--sample-tokens", type=int, default=320)
    parser.add_argument("--sample-seconds", type=float, default=90)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    started = time.perf_counter()
    experts = load_experts(options)
    print(f"{[e.identity for e in experts]} after {time.perf_counter() - started:.0f} s", flush=True)
    data = _data(options)
    facts: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "CPU",
        "torch": torch.__version__,
        "options": {key: value for key, value in vars(options).items() if key not in ("pairs", "output", "expert")},
        "experts": [expert.identity for expert in experts],
        "start": [list(expert.start) for expert in experts],
        "pairs": {"trained": len(data.trained), "held_out": len(data.held_out), "too_long": data.too_long},
        "data": data.digest,
        "frozen": {},
        "runs": {},
    }

    def write() -> None:
        facts["seconds"] = time.perf_counter() - started
        Path(options.output).write_text(json.dumps(facts, indent=1))

    for expert in experts:
        alone = mixture_of([expert], options.device, 0, 1, False)
        facts["frozen"][expert.name] = held_out(alone, data, options.held_out, options.batch, 0)
    print("frozen", facts["frozen"], flush=True)
    write()
    settings = TrainingSettings(
        steps=options.steps, batch=options.batch, learning_rate=options.learning_rate, seed=options.seed
    )
    kept: dict[str, Mixture] = {}
    runs = runs_of(experts, options.device, options.seed)
    wanted = options.only.split(",") if options.only else list(runs)
    for name in wanted:
        kept[name], facts["runs"][name] = train(name, runs[name], data, settings, options.held_out)
        write()
    if "mixture" in kept:
        facts["ablation"] = ablate(kept["mixture"], data, options.held_out, options.batch)
        write()
        facts["decoding"] = speed_and_memory(kept["mixture"].eval(), data.held_out[0].pair.prompt, 100, options.device)
        write()
    if options.samples:
        _samples(options, kept, facts)
        write()
    print(f"{time.perf_counter() - started:.0f} s in all", flush=True)


def _samples(options: argparse.Namespace, kept: Mapping[str, Mixture], facts: dict[str, Any]) -> None:
    import tempfile

    names = [expert.partition("=")[0] for expert in options.expert]
    best = min(names, key=lambda name: facts["runs"][f"itself:{name}"].get("held_out", float("inf")))
    facts["best"] = best
    with tempfile.TemporaryDirectory() as folder:
        for name in (f"itself:{best}", f"peer:{best}", "mixture"):
            save_adapter(kept[name], Path(folder) / f"{name.replace(':', '-')}.safetensors")
        context = torch.multiprocessing.get_context("spawn")
        arguments = (options.processes, options, folder, best, options.sample_seconds)
        crew = [context.Process(target=sample_in_process, args=(n, *arguments)) for n in range(options.processes)]
        for process in crew:
            process.start()
        for process in crew:
            process.join()
        parts = sorted(Path(folder).glob("samples-*.json"))
        facts["samples"] = [one for part in parts for one in json.loads(part.read_text())]
    print(f"{len(facts['samples'])} samples of {len(parts)} processes", flush=True)


if __name__ == "__main__":
    main()
