"""Long work: one job at a time per device, in the order asked for, each with a stop flag of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define, field


@define(eq=False)
class Job:
    """``token`` names it to the client. Setting ``cancelled`` asks it to stop with its best so far."""

    kind: str
    uri: str
    kernel: str
    token: str = field(factory=lambda: f"optiml-{uuid.uuid4()}")
    cancelled: asyncio.Event = field(factory=asyncio.Event)


@define
class Jobs:
    """The running and the waiting jobs."""

    active: dict[str, Job] = field(factory=dict)
    _tasks: dict[str, asyncio.Task[object]] = field(factory=dict)
    _locks: dict[str, asyncio.Lock] = field(factory=dict)

    @property
    def running_count(self) -> int:
        return len(self.active)

    @asynccontextmanager
    async def running(self, job: Job, device: str) -> AsyncIterator[None]:
        """Holds the device for ``job``; jobs for the same device wait for each other."""
        task = asyncio.current_task()
        self.active[job.token] = job
        if task is not None:
            self._tasks[job.token] = task
        lock = self._locks.setdefault(device, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            self.active.pop(job.token, None)
            self._tasks.pop(job.token, None)

    def stop(self, token: str | None = None) -> int:
        """Asks one job, or all, to stop; how many that were."""
        jobs = [self.active[token]] if token in self.active else list(self.active.values()) if token is None else []
        for job in jobs:
            job.cancelled.set()
        return len(jobs)

    async def stop_all(self, seconds: float = 3.0) -> None:
        """Stops every job and waits until its command has answered: pygls' shutdown fails with any in flight."""
        self.stop()
        tasks = [task for task in self._tasks.values() if task is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def busy(self) -> bool:
        return bool(self.active)
