"""A trained mixture behind the interface of every language model, opened from the user's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `llm`")

from mixture_of_thoughts.conftest import make_expert, make_mixture  # noqa: E402
from optiml_core.language_models.configuration import (  # noqa: E402
    ConfiguredModel,
    TrainedMixtureSettings,
    configured_models,
)
from optiml_core.language_models.interface import Answer, Message, SamplingSettings  # noqa: E402
from optiml_core.language_models.local import LocalModel, LocalSettings, load_local  # noqa: E402
from optiml_core.mixture_of_thoughts.adapter_files import save_adapter  # noqa: E402
from optiml_core.mixture_of_thoughts.experts import Expert  # noqa: E402
from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings  # noqa: E402
from optiml_core.mixture_of_thoughts.model import MixtureModel, open_configured  # noqa: E402
from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder  # noqa: E402
from optiml_core.records import Failure  # noqa: E402

ASKED = (Message("user", "scale x by two"),)


def test_it_answers_like_any_model() -> None:
    model = MixtureModel(make_mixture(gate=0.5))
    seen: list[tuple[int, str]] = []
    settings = SamplingSettings(samples=2, tokens=8, temperature=0.9, seed=3)
    answer = model.ask(ASKED, settings, on_text=lambda sample, text: seen.append((sample, text)))
    assert isinstance(answer, Answer)
    assert len(answer.samples) == 2
    assert {sample for sample, _ in seen} == {0, 1}
    assert answer.usage.answer_tokens == len(seen)
    again = model.ask(ASKED, settings)
    assert isinstance(again, Answer)
    assert again.samples == answer.samples


def test_it_stops_where_it_is_told_and_when_it_is_cancelled() -> None:
    model = MixtureModel(make_mixture())
    whole = model.ask(ASKED, SamplingSettings(tokens=12, temperature=0.0))
    assert isinstance(whole, Answer)
    text = whole.samples[0].text
    stop = text[3:5]
    cut = model.ask(ASKED, SamplingSettings(tokens=12, temperature=0.0, stop=(stop,)))
    assert isinstance(cut, Answer)
    assert cut.samples[0].text == text[: text.index(stop)]
    assert cut.samples[0].finished
    cancelled = model.ask(ASKED, SamplingSettings(), cancelled=lambda: True)
    assert isinstance(cancelled, Failure)
    assert cancelled.kind == "cancelled"
    late = model.ask(ASKED, SamplingSettings(seconds=-1.0))
    assert isinstance(late, Failure)
    assert late.kind == "timeout"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Two experts and an adapter on disk."""
    root = tmp_path_factory.mktemp("mixture")
    experts = []
    for family, seed in (("qwen2", 1), ("starcoder2", 2)):
        made = make_expert(family, seed, 300)
        made.model.save_pretrained(root / family)
        made.tokenizer.save_pretrained(root / family)
        # transformers may read a saved tokenizer as another class, with a token more.
        loaded = load_local(LocalSettings(str(root / family), "float32", "cpu"))
        assert isinstance(loaded, LocalModel)
        experts.append(Expert(family, loaded.model, loaded.tokenizer))
    torch.manual_seed(0)
    mixture = Mixture(experts, HashedWordsEncoder(), MixtureSettings(2, 2, None, 4))
    with torch.no_grad():
        mixture.interactions[0].gates.fill_(1.0)
    save_adapter(mixture, root / "adapter.safetensors")
    return str(root), [str(root / family) for family in ("qwen2", "starcoder2")]


def test_a_configured_mixture_is_opened_with_its_adapter(folders: tuple[str, list[str]], tmp_path: Path) -> None:
    root, experts = folders
    file = tmp_path / "models.toml"
    listed = ", ".join(f'"{expert}"' for expert in experts)
    file.write_text(f'[[model]]\nmixture = "{root}"\nexperts = [{listed}]\ndtype = "float32"\ndevice_map = "cpu"\n')
    configured = configured_models(file, {})
    assert isinstance(configured, tuple)
    model = open_configured(configured[0])
    assert isinstance(model, MixtureModel), model
    assert model.name == "mixture of qwen2, starcoder2"
    assert float(model._mixture.interactions[0].gates.detach()[0]) == 1.0
    assert isinstance(model.ask(ASKED, SamplingSettings(tokens=3)), Answer)


def test_other_experts_and_missing_adapters_are_refused(folders: tuple[str, list[str]], tmp_path: Path) -> None:
    root, experts = folders

    def opened(adapter: str, names: list[str]) -> object:
        return open_configured(ConfiguredModel(TrainedMixtureSettings(adapter, tuple(names), "float32", "cpu")))

    swapped = opened(root, experts[::-1])
    assert isinstance(swapped, Failure)
    assert "experts" in swapped.message
    assert isinstance(opened(str(tmp_path / "none"), experts), Failure)
    assert isinstance(opened(root, [str(tmp_path / "none")]), Failure)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('mixture = "m"', "`experts` must be a list"),
        ('mixture = "m"\nexperts = [1]', "`experts` must be a list"),
        ('mixture = "m"\nexperts = ["a"]\nlocal = "b"', "unknown keys experts, mixture"),
        ('mixture = "m"\nexperts = ["a"]\nkey = "b"', "unknown keys key"),
    ],
)
def test_a_wrong_entry_is_told(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f"[[model]]\n{text}\n")
    found = configured_models(file, {})
    assert isinstance(found, Failure)
    assert says in found.message
