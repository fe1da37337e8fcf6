"""Training: it learns, it resumes bit for bit, and it refuses what belongs to another run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `llm`")

from attrs import evolve  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from mixture_of_thoughts.conftest import make_expert, make_mixture  # noqa: E402
from optiml_core.mixture_of_thoughts.adapter_files import load_adapter, save_adapter  # noqa: E402
from optiml_core.mixture_of_thoughts.experts import Expert  # noqa: E402
from optiml_core.mixture_of_thoughts.losses import LossWeights, held_out_bits_per_byte, losses_of  # noqa: E402
from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings, Pair  # noqa: E402
from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder, balance_loss, entropy_loss  # noqa: E402
from optiml_core.mixture_of_thoughts.training import Training, TrainingSettings, batch_of, run_training  # noqa: E402
from optiml_core.mixture_of_thoughts.training_data import TrainingData, TrainingPair  # noqa: E402
from optiml_core.mixture_of_thoughts.training_folder import (  # noqa: E402
    CHECKPOINT,
    LOG,
    TrainingOutcome,
    read_log,
    train_in_folder,
)
from optiml_core.records import Failure  # noqa: E402

SETTINGS = TrainingSettings(steps=6, batch=3, learning_rate=3e-3, warm_up=2, held_out_every=2, seed=5)
NO_EXTRAS = LossWeights(entropy=0.0, balance=0.0, consistency=0.0)


def some_pairs(count: int) -> list[Pair]:
    generator = random.Random(0)
    names = ["x", "y", "tile", "sum"]
    return [
        Pair(
            f"scale {(name := generator.choice(names))} by {(by := generator.randrange(2, 9))}\n".encode(),
            f"  if (i < n) {name}[i] *= {by}.0f;\n".encode(),
        )
        for _ in range(count)
    ]


def data_of(count: int) -> TrainingData:
    pairs = [TrainingPair(pair, "test", str(n), n) for n, pair in enumerate(some_pairs(count))]
    return TrainingData(tuple(pairs[2:]), tuple(pairs[:2]), "digest")


def fresh(active: int = 2, seed: int = 7) -> Mixture:
    """As a user starts: gates at zero, dropout on."""
    experts = make_mixture().experts
    torch.manual_seed(seed)
    return Mixture(experts, HashedWordsEncoder(64), MixtureSettings(3, active, None, 4, 16, 0.1))


def steps_of(outcome: TrainingOutcome | Failure) -> tuple[int, int]:
    assert isinstance(outcome, TrainingOutcome), outcome
    return outcome.resumed, outcome.done


def without_time(entries: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert steps_of(train_in_folder(fresh(), data_of(12), SETTINGS, folder, checkpoint_every=2)) == (0, 6)
    return folder


def test_stopped_and_resumed_is_bitwise_the_run_that_was_not_stopped(uninterrupted: Path, tmp_path: Path) -> None:
    seen: list[Any] = []
    first = train_in_folder(
        fresh(), data_of(12), SETTINGS, tmp_path, on_entry=seen.append, cancelled=lambda: len(seen) >= 3
    )
    assert steps_of(first) == (0, 3)
    # Other fresh weights: everything must come from the checkpoint.
    second = train_in_folder(fresh(seed=99), data_of(12), SETTINGS, tmp_path)
    assert steps_of(second) == (3, 6)
    same_run(uninterrupted, tmp_path)


def test_killed_after_its_last_checkpoint_it_repeats_the_lost_steps(uninterrupted: Path, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(entry: Any) -> None:
        if entry["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        train_in_folder(fresh(), data_of(12), SETTINGS, tmp_path, checkpoint_every=2, on_entry=kill)
    assert len(read_log(tmp_path / LOG)) == 5
    assert steps_of(train_in_folder(fresh(seed=3), data_of(12), SETTINGS, tmp_path)) == (4, 6)
    same_run(uninterrupted, tmp_path)


def same_run(one: Path, other: Path) -> None:
    for name in (CHECKPOINT, "adapter.safetensors"):
        first, second = load_file(one / name), load_file(other / name)
        assert first.keys() == second.keys()
        for key, tensor in first.items():
            assert torch.equal(tensor, second[key]), key
    assert without_time(read_log(one / LOG)) == without_time(read_log(other / LOG))


def test_a_finished_run_is_not_trained_further(uninterrupted: Path) -> None:
    before = load_file(uninterrupted / "adapter.safetensors")
    assert steps_of(train_in_folder(fresh(seed=50), data_of(12), SETTINGS, uninterrupted)) == (6, 6)
    after = load_file(uninterrupted / "adapter.safetensors")
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_the_log_has_an_entry_for_every_step(uninterrupted: Path) -> None:
    entries = read_log(uninterrupted / LOG)
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in entries if "held_out_bits_per_byte" in entry] == [2, 4, 6]
    for entry in entries:
        assert sum(entry["primaries"]) == 3
        assert {"language", "entropy", "balance", "consistency", "gradient", "rate", "gates", "tokens"} <= set(entry)


@pytest.mark.parametrize(
    ("what", "mixture", "data", "settings"),
    [
        ("data", fresh, evolve(data_of(12), digest="other"), SETTINGS),
        ("training", fresh, data_of(12), evolve(SETTINGS, learning_rate=1e-4)),
        ("settings", lambda: fresh(active=3), data_of(12), SETTINGS),
        ("experts", lambda: make_mixture(active=2), data_of(12), SETTINGS),
    ],
)
def test_another_runs_checkpoint_is_refused(
    uninterrupted: Path, what: str, mixture: Any, data: TrainingData, settings: TrainingSettings
) -> None:
    given = mixture()
    if what == "experts":
        given.settings = fresh().settings
        given.experts = given.experts[::-1]
    outcome = train_in_folder(given, data, settings, uninterrupted)
    assert isinstance(outcome, Failure)
    assert f"its {what} differ" in outcome.message


def test_a_broken_checkpoint_is_a_failure_with_its_place(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"not safetensors")
    outcome = train_in_folder(fresh(), data_of(12), SETTINGS, tmp_path)
    assert isinstance(outcome, Failure)
    assert outcome.file == str(tmp_path / CHECKPOINT)


def test_it_learns_and_leaves_the_experts_alone() -> None:
    mixture = fresh()
    before = [p.clone() for expert in mixture.experts for p in expert.model.parameters()]
    pairs = some_pairs(24)
    start = held_out_bits_per_byte(mixture, pairs)
    training = Training(mixture, evolve(SETTINGS, steps=40, learning_rate=1e-2))
    assert run_training(training, pairs, (), lambda entry: None) is None
    assert held_out_bits_per_byte(mixture, pairs) < start - 0.3
    after = [p for expert in mixture.experts for p in expert.model.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert any(float(layer.gates.detach().abs().max()) > 0 for layer in mixture.interactions)


def test_the_choice_of_the_primary_learns_from_the_loss() -> None:
    """Even with interaction off and no other loss, a worse expert loses probability."""
    mixture = fresh(active=1)
    mixture.settings = evolve(mixture.settings, interaction=False)
    pairs = some_pairs(24)
    alone = [held_out_bits_per_byte(mixture, pairs, forced_primary=index) for index in range(3)]
    settings = evolve(SETTINGS, steps=60, batch=8, learning_rate=1e-2, weights=NO_EXTRAS)
    assert run_training(Training(mixture, settings), pairs, (), lambda entry: None) is None
    mixture.eval()
    primaries = mixture.route([pair.prompt for pair in pairs]).primary
    assert primaries.count(alone.index(max(alone))) == 0, (alone, primaries)
    # Each prompt on its own: as good as the best expert alone, or better.
    assert held_out_bits_per_byte(mixture, pairs) < min(alone) + 0.02, (alone, primaries)


def test_a_given_primary_leads_every_prompt() -> None:
    mixture = fresh()
    entry = Training(mixture, evolve(SETTINGS, primary=1)).step(some_pairs(6))
    assert not isinstance(entry, Failure)
    assert entry["primaries"] == [0, 3, 0]
    gates = [layer.gates.detach() for layer in mixture.interactions]
    assert all(float(gate[1].abs()) > 0 and float(gate[[0, 2]].abs().max()) == 0 for gate in gates)


def test_the_charge_for_the_choice_has_no_value(open_gates: Mixture) -> None:
    generator = torch.Generator().manual_seed(1)
    losses = losses_of(open_gates, some_pairs(4), NO_EXTRAS, generator, usual=100.0)
    assert float(losses.total.detach()) == losses.language


def test_consistency_compares_two_routings(open_gates: Mixture) -> None:
    weights = LossWeights(entropy=0.0, balance=0.0, consistency=1.0)
    everyone = losses_of(open_gates, some_pairs(4), weights, torch.Generator(), None)
    assert everyone.consistency == 0.0, "with every expert active there is no other routing"
    some = make_mixture(active=2, gate=1.5).train()
    some.router.active = 2
    losses = losses_of(some, some_pairs(8), weights, torch.Generator().manual_seed(3), None)
    assert losses.consistency > 0
    losses.total.backward()
    assert some.interactions[0].value.weight.grad is not None


def test_entropy_and_balance_have_their_minimum_at_even_loads() -> None:
    even, skewed = torch.zeros(4, 3), torch.tensor([[5.0, 0.0, 0.0]] * 4)
    assert float(entropy_loss(even)) < float(entropy_loss(skewed))
    assert float(balance_loss(even)) == pytest.approx(0.0, abs=1e-12)
    assert float(balance_loss(skewed)) > 1.0
    # Each row decided, the load even over the rows: balanced all the same.
    assert float(balance_loss(torch.eye(3) * 20)) == pytest.approx(0.0, abs=1e-6)


def test_every_epoch_sees_every_pair_once() -> None:
    settings = TrainingSettings(batch=3, accumulate=2, seed=11)
    drawn = [index for step in range(5) for index in batch_of(10, settings, step)]
    epochs = [drawn[start : start + 10] for start in range(0, 30, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_accumulated_steps_equal_one_large_batch() -> None:
    """Without noise, dropout and what depends on the whole batch, two halves add up to the whole."""
    weights = []
    for batch, accumulate in ((4, 1), (2, 2)):
        mixture = fresh(active=3)
        for module in mixture.router.scorer:
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        pairs = [Pair(b"one prompt\n", b" int i = threadIdx.x;")] * 4
        training = Training(mixture, evolve(SETTINGS, batch=batch, accumulate=accumulate, weights=NO_EXTRAS))
        training.usual = 0.0
        mixture.router.eval()
        mixture.train = lambda mode=True, mixture=mixture: mixture  # type: ignore[method-assign,misc,assignment]
        assert not isinstance(training.step(pairs), Failure)
        weights.append(mixture.interactions[0].gates.detach().clone())
    assert torch.allclose(weights[0], weights[1], atol=1e-6)
    assert weights[0].abs().max() > 0


def test_a_loss_that_is_no_number_changes_nothing() -> None:
    mixture = fresh()
    training = Training(mixture, SETTINGS)
    with torch.no_grad():
        mixture.interactions[0].gates.fill_(float("nan"))
    before = {name: tensor.clone() for name, tensor in mixture.router.state_dict().items()}
    outcome = training.step(some_pairs(6))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "diverged"
    assert training.done == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in mixture.router.state_dict().items())


def test_an_adapter_comes_back_exactly_and_fits_no_other_experts(tmp_path: Path) -> None:
    one, path = make_mixture(gate=0.7), tmp_path / "adapter.safetensors"
    save_adapter(one, path)
    other = make_mixture(gate=0.0)
    assert load_adapter(other, path) is None
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
    pair = some_pairs(1)[0]
    with torch.no_grad():
        assert torch.equal(one([pair]).rows[0].logits, other([pair]).rows[0].logits)
    changed = make_expert("starcoder2", 2, 290, hidden=48, layers=6)
    with torch.no_grad():
        changed.model.model.embed_tokens.weight[0, 0] += 1.0
    changed = Expert(changed.name, changed.model, changed.tokenizer)
    experts = (one.experts[0], changed, one.experts[2])
    failure = load_adapter(Mixture(experts, one.encoder, one.settings), path)
    assert isinstance(failure, Failure)
    assert "experts" in failure.message
    assert not list(tmp_path.glob(".*")), "no half-written file is left"


def test_a_truncated_adapter_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "adapter.safetensors"
    save_adapter(make_mixture(), path)
    path.write_bytes(path.read_bytes()[:-100])
    assert isinstance(load_adapter(make_mixture(), path), Failure)


def test_the_log_survives_a_line_cut_off(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text(json.dumps({"step": 1}) + '\n{"step": 2, "lan')
    assert [entry["step"] for entry in read_log(tmp_path / LOG)] == [1]
