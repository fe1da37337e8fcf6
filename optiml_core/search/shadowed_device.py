"""A GPU whose wider shadow is computed in the emulator, which alone can build a kernel in wider types."""

from __future__ import annotations

from collections.abc import Sequence

from optiml_core.device.protocol import Built, Contents, Device, RunOptions, RunResult
from optiml_core.records import Failure, Launch, Variant


class ShadowedDevice:
    """Widened builds and their runs go to ``emulator``, everything else to ``gpu``; see ``device.protocol.Device``.

    Both outlive it: ``close`` is their owner's affair.
    """

    def __init__(self, gpu: Device, emulator: Device) -> None:
        self._gpu = gpu
        self._emulator = emulator

    @property
    def name(self) -> str:
        return self._gpu.name

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        device = self._emulator if widened else self._gpu
        return device.build(variant, template_arguments, widened)

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions | None = None
    ) -> RunResult | Failure:
        device = self._emulator if built.widened else self._gpu
        return device.run(built, launch, contents, options or RunOptions())

    def close(self) -> None:
        return
