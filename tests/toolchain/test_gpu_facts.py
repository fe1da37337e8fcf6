import attrs
import pytest

from optiml_core.records import Failure
from optiml_core.toolchain import GpuFacts, compile_architecture, gpu_facts, known_gpus


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (None, "NVIDIA H100"),
        ("H100", "NVIDIA H100"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100"),
        ("h200", "NVIDIA H200"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100"),
        ("Tesla T4", "NVIDIA T4"),
        ("L4", "NVIDIA L4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("rtx 3090", "NVIDIA GeForce RTX 3090"),
        ("RTX4090", "NVIDIA GeForce RTX 4090"),
        ("rtx_5090", "NVIDIA GeForce RTX 5090"),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090"),
        ("sm_75", "NVIDIA T4"),
        ("sm_80", "NVIDIA A100"),
        ("sm_86", "NVIDIA GeForce RTX 3090"),
        ("compute_89", "NVIDIA GeForce RTX 4090"),
        ("sm_90a", "NVIDIA H100"),
        ("9.0", "NVIDIA H100"),
        ("sm_100", "NVIDIA B200"),
        ("12.0", "NVIDIA GeForce RTX 5090"),
    ],
)
def test_a_gpu_is_found_as_people_and_tools_write_it(written: str | None, name: str) -> None:
    facts = gpu_facts(written)
    assert not isinstance(facts, Failure)
    assert facts.name == name


@pytest.mark.parametrize("written", ["V100", "Tesla V100-SXM2-16GB", "sm_70", "GTX 1080", "sm_61"])
def test_what_cuda_13_dropped_is_explained(written: str) -> None:
    failure = gpu_facts(written)
    assert isinstance(failure, Failure)
    assert "CUDA 13 no longer compiles" in failure.message
    assert "H100" in failure.cure


@pytest.mark.parametrize("written", ["RX 7900", "sm_87", "L5", "", " ", "sm_"])
def test_an_unknown_gpu_is_said_with_the_known_ones(written: str) -> None:
    failure = gpu_facts(written)
    if written == "":
        assert not isinstance(failure, Failure)  # empty is the default
        return
    assert isinstance(failure, Failure)
    assert "no longer" not in failure.message
    assert "RTX 5090" in failure.cure


# Peak rates of the data sheets and whitepapers named in the table, in 10^12 operations a second.
@pytest.mark.parametrize(
    ("name", "fp32", "fp64", "fp16"),
    [
        ("T4", 8.1, None, 16.2),
        ("A100", 19.5, 9.7, 78),
        ("RTX 3090", 35.6, 0.56, 35.6),
        ("L4", 30.3, None, None),
        ("L40S", 91.6, None, None),
        ("RTX 4090", 82.6, 1.29, 82.6),
        ("H100", 67, 34, 134),
        ("H200", 67, 34, None),
        ("B200", 75, 37, None),
        ("RTX 5090", 104.8, 1.64, 104.8),
    ],
)
def test_units_times_clock_give_the_published_peaks(
    name: str, fp32: float, fp64: float | None, fp16: float | None
) -> None:
    facts = gpu_facts(name)
    assert not isinstance(facts, Failure)
    assert facts.fp32_rate / 1e12 == pytest.approx(fp32, rel=0.02)
    if fp64 is not None:
        assert facts.fp64_rate / 1e12 == pytest.approx(fp64, rel=0.02)
    if fp16 is not None:
        assert facts.fp16_rate / 1e12 == pytest.approx(fp16, rel=0.02)


@pytest.mark.parametrize("facts", known_gpus(), ids=lambda facts: facts.name)
def test_no_number_is_missing_and_the_hierarchy_is_in_order(facts: GpuFacts) -> None:
    assert 0 < facts.dram_bandwidth < facts.l2_bandwidth < facts.l1_bandwidth
    assert 0 < facts.l2_latency < facts.dram_latency < 2e-6
    assert facts.l2_bytes < facts.memory_bytes
    assert facts.shared_per_block_opt_in + facts.reserved_shared_per_block <= facts.shared_per_multiprocessor
    assert facts.shared_per_multiprocessor <= facts.l1_bytes
    assert facts.tensor_rates["float16"] > facts.fp32_rate * 0.9
    assert facts.estimated <= {attribute.name for attribute in attrs.fields(GpuFacts)}
    assert not isinstance(compile_architecture(facts.architecture), Failure)


@pytest.mark.parametrize(
    ("written", "architecture"),
    [
        ("sm_90", "sm_90"),
        ("sm_90a", "sm_90a"),
        ("compute_75", "sm_75"),
        ("8.6", "sm_86"),
        ("120", "sm_120"),
        ("sm_103f", "sm_103f"),
    ],
)
def test_an_architecture_is_normalised(written: str, architecture: str) -> None:
    assert compile_architecture(written) == architecture


@pytest.mark.parametrize("written", ["sm_70", "sm_999", "native", "", "sm_90;rm"])
def test_an_architecture_that_cannot_be_compiled_for_is_refused(written: str) -> None:
    assert isinstance(compile_architecture(written), Failure)
