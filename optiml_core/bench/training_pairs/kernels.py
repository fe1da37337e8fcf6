"""What every family of kernels needs: a text put together from its declaration, signature and body."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

from optiml_core.bench.training_pairs.style import Namer, Style, draw_style, laid_out


@frozen
class KernelText:
    """One kernel to be rewritten. ``text`` starts with its workload declaration. ``family``: what drew it."""

    family: str
    text: str
    kernel: str


class Draw:
    """One kernel's random choices."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.style: Style = draw_style(rng)
        self.name = Namer(rng)

    def line_block(self) -> int:
        return self.rng.choice([64, 128, 256, 256, 512])

    def area_block(self) -> tuple[int, int]:
        return self.rng.choice([(16, 16), (32, 8), (8, 8), (32, 16), (16, 8), (8, 32)])

    def line_size(self) -> int:
        """Elements of a line: about a million, seldom a round number."""
        return self.rng.choice([1 << 20, 1 << 22, 1_000_000, 3_000_001, 500_000, 1 << 21, 777_777])

    def area_size(self) -> tuple[int, int]:
        sizes = [512, 1024, 2048, 1000, 768, 1500, 3000, 640]
        return self.rng.choice(sizes), self.rng.choice(sizes)

    def ctype(self, integers: bool = True) -> str:
        return self.rng.choice(["float"] * 6 + ["double"] * 2 + (["int"] if integers else []))

    def content(self, ctype: str) -> str:
        if ctype == "int":
            return self.rng.choice(["uniform(-100, 100)", "uniform(0, 50)"])
        return self.rng.choice(["normal", "normal", "uniform(-1, 1)", "uniform(0, 1)"])

    def order(self, parameters: Sequence[str]) -> str:
        """Parameters in an order of their own: sizes first or last, outputs first or last."""
        found = list(parameters)
        if self.rng.random() < 0.35:
            self.rng.shuffle(found)
        return ", ".join(found)


def kernel_text(
    draw: Draw, family: str, name: str, declaration: Sequence[str], parameters: Sequence[str], body: Sequence[str],
    before: Sequence[str] = (),
) -> KernelText:  # fmt: skip
    """``declaration``: the workload's lines without their sign; ``body``: statements, one a line."""
    lines = [*before, *(f"// optiml: {line}" for line in declaration)]
    lines += [f"__global__ void {name}({draw.order(parameters)}) {{", *body, "}"]
    return KernelText(family, laid_out(draw.style, lines), name)
