"""Finding the head, and reading manifests.

The head is the root manifest with the greatest generation. It is found from a hint by probing
upwards. The hint may be stale, lost, or even have gone back: it only says where to start. What must
hold is that every generation between the starting point and the head exists. GC thins out
generations from below, and only such that are older than its age gate. So a start is safe if this
process saw it as the head less than a tenth of the gate ago, or if it was published less than that
ago; a time in the future means that a clock is wrong. Any other start is confirmed by a listing,
which costs one call in a workspace that has been idle for hours.

Only NotFound means empty. Anything else fails closed.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from arco.clock import Clock
from arco.epoch import EPOCH
from arco.errors import Contended, Corrupt, Error, NotFound
from arco.log.manifest import (
    FORMAT,
    DomainManifest,
    FileRef,
    Floor,
    Hint,
    HistoryList,
    HistoryRef,
    Ref,
    RootManifest,
    decode,
    decode_sealed,
    encode_sealed,
    sha256,
    verified,
)
from arco.storage import paths
from arco.storage.port import Mode, ObjectMeta, Store
from arco.storage.seal import listed_surely, read_checked
from arco.storage.store_clock import BOUND
from arco.storage.unique_objects import put_own

AGE_GATE = timedelta(hours=24)
M = TypeVar("M", DomainManifest, HistoryList)


class Head(msgspec.Struct, frozen=True):
    """A root manifest and the checksum that its child must name as its parent."""

    manifest: RootManifest
    sha256: str

    @property
    def generation(self) -> int:
        return self.manifest.generation


def genesis(tenant: str, workspace: str) -> Head:
    """The head of a workspace that nothing was ever committed to. Never stored."""
    root = RootManifest(
        format=FORMAT,
        tenant_id=tenant,
        workspace_id=workspace,
        generation=0,
        kind="genesis",
        commit_id="",
        parent_sha256="",
        published_at=EPOCH,
        log_time=EPOCH,
        position=0,
        domains={},
    )
    return Head(root, "")


class Manifests:
    """Reads manifests. Domain manifests are immutable, so they are cached by checksum."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        workspace: str,
        clock: Clock,
        *,
        age_gate: timedelta = AGE_GATE,
        cache: int = 64,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.workspace = workspace
        self.clock = clock
        self.age_gate = age_gate
        self._cache_size = cache
        self._cached: OrderedDict[str, DomainManifest | HistoryList] = OrderedDict()
        self._lock = threading.Lock()
        self._last_head: Head | None = None
        self._last_head_at = (0.0, EPOCH)
        """When that was seen to be the head, by both clocks."""

    def head(self) -> Head:
        """The newest generation, read from the store."""
        start = self._start()
        if start is None:
            return genesis(self.tenant, self.workspace)
        now = (self.clock.monotonic(), self.clock.now())
        head = self._probe(start)
        self._last_head, self._last_head_at = head, now
        return head

    def assumed(self) -> Head | None:
        """The recent head; None if it is unknown or too old.

        For a writer that creates the number after it: if another has, the create fails.
        """
        return self._last_head if self._last_head is not None and self._was_just_head() else None

    def _start(self) -> Head | None:
        if self._last_head is not None and self._was_just_head():
            return self._last_head
        candidates = [h for h in (self._last_head, self._hinted()) if h is not None]
        newest = max(candidates, key=lambda h: h.generation, default=None)
        if newest is not None and self._recent(newest):
            return newest
        return self.listed(newest)

    def _was_just_head(self) -> bool:
        """Both clocks are compared: the monotonic one stops while a machine sleeps."""
        limit = self.age_gate / 10
        elapsed_s = self.clock.monotonic() - self._last_head_at[0]
        elapsed = self.clock.now() - self._last_head_at[1]
        return elapsed_s < limit.total_seconds() and abs(elapsed) < limit

    def _recent(self, head: Head) -> bool:
        age = self.clock.now() - head.manifest.published_at
        return -BOUND < age < self.age_gate / 10

    def _hinted(self) -> Head | None:
        hint = self.hint()
        return None if hint is None else self.find(hint.generation)

    def listed(self, above: Head | None) -> Head | None:
        """The newest generation by a listing, for when the hint cannot be trusted."""
        newest = None
        if above is None:
            listed: Iterable[ObjectMeta] = listed_surely(self.store, paths.MANIFESTS)
        else:
            listed = self.store.list(paths.MANIFESTS, paths.root(above.generation))
        for meta in listed:
            generation = paths.root_generation(meta.path)
            if generation is None:
                break  # digits sort before every other name in this folder
            newest = generation
        return above if newest is None else self.read(newest)

    def _probe(self, start: Head) -> Head:
        """Gallop up from a generation that exists, then search the gap."""
        low, step = start, 1
        while (head := self.find(low.generation + step)) is not None:
            low, step = head, step * 2
        high = low.generation + step
        while high - low.generation > 1:
            middle = (low.generation + high) // 2
            head = self.find(middle)
            if head is None:
                high = middle
            else:
                low = head
        return low

    def find(self, generation: int) -> Head | None:
        try:
            return self.read(generation)
        except NotFound:
            return None

    def read(self, generation: int) -> Head:
        """One generation. Raises NotFound if it does not exist or was collected."""
        if generation == 0:
            return genesis(self.tenant, self.workspace)
        path = paths.root(generation)
        return read_checked(self.store, path, lambda raw: self._parse(raw, generation, path))

    def _parse(self, raw: bytes, generation: int, path: str) -> Head:
        root = decode_sealed(raw, RootManifest, path)
        if root.generation != generation:
            raise Corrupt(f"{path} says that it is generation {root.generation}")
        if (root.tenant_id, root.workspace_id) != (self.tenant, self.workspace):
            raise Corrupt(f"{path} belongs to {root.tenant_id}/{root.workspace_id}")
        return Head(root, sha256(raw))

    def domain(self, ref: Ref) -> DomainManifest:
        return self._read_cached(ref, DomainManifest)

    def history(self, ref: HistoryRef) -> tuple[FileRef, ...]:
        """The history files of a table."""
        return self._read_cached(ref.list, HistoryList).files

    def _read_cached(self, ref: Ref, cls: type[M]) -> M:
        cached = self._cached.get(ref.sha256)
        if cached is None:
            try:
                read = read_checked(
                    self.store,
                    ref.path,
                    lambda raw: decode(verified(raw, ref.sha256, ref.path), cls, ref.path),
                )
            except NotFound:
                raise Corrupt(f"{ref.path} is missing", hint="run `servo admin fsck`") from None
            self.remember(ref, read)
            return read
        assert isinstance(cached, cls)
        return cached

    def remember(self, ref: Ref, manifest: DomainManifest | HistoryList) -> None:
        with self._lock:
            self._cached[ref.sha256] = manifest
            while len(self._cached) > self._cache_size:
                self._cached.popitem(last=False)

    def rewritten(self, since: int, head: Head) -> bool:
        """Whether rows changed without an event after a generation, up to `head`.

        A rebuild and a rollback do that: what was derived from the older one is void.
        """
        return head.manifest.rewritten_at > since

    def hint(self) -> Hint | None:
        try:
            return decode_sealed(self.store.get(paths.HINT).data, Hint, paths.HINT)
        except (NotFound, Corrupt):
            return None  # a broken hint is no hint: the listing decides

    def write_hint(self, head: Head) -> None:
        """Point at `head`, unless the hint is already past it."""
        current = self.hint()
        if current is None or current.generation < head.generation:
            self.put_hint(head)

    def put_hint(self, head: Head) -> None:
        raw = encode_sealed(Hint(head.generation, head.sha256))
        self.store.put(paths.HINT, raw, Mode.OVERWRITE)

    def advance(self, head: Head) -> None:
        """Remember a head that this process created."""
        if self._last_head is None or self._last_head.generation < head.generation:
            self._last_head = head
            self._last_head_at = (self.clock.monotonic(), self.clock.now())

    def floor(self) -> Floor:
        """Which generations GC promises to keep.

        Floors are numbered objects, and the greatest number counts: one that arrives late, or from
        a collector that slept, cannot lower it.
        """
        return self._newest_floor()[1]

    def _newest_floor(self) -> tuple[int, Floor]:
        while True:
            number = max(self._floors(), default=0)
            if number == 0:
                return 0, Floor(1)
            with contextlib.suppress(NotFound):  # removed since: there is a newer one
                path = paths.floor(number)
                read = functools.partial(decode_sealed, cls=Floor, path=path)
                return number, read_checked(self.store, path, read)

    def floor_number(self) -> int:
        """The number of the newest floor; 0 if there is none."""
        return self._newest_floor()[0]

    def raise_floor(self, floor: Floor) -> None:
        """Prevent readers from opening other generations. Read the pins only after this.

        Raises Contended if another collector was faster.
        """
        number, current = self._newest_floor()
        if floor == current:
            return
        allowed = {*current.thinned_numbers(), *range(current.generation, floor.generation)}
        beyond = set(floor.thinned_numbers()) - allowed
        if floor.generation < current.generation or beyond:
            raise Contended("another gc changed the floor concurrently", hint="try again")
        self._put_floor(number + 1, encode_sealed(floor))
        for older in sorted(self._floors()):
            if older < number:  # one stays, for concurrent listings
                with contextlib.suppress(Error):
                    self.store.delete(paths.marks(older))
                    self.store.delete(paths.floor(older))

    def _put_floor(self, number: int, raw: bytes) -> None:
        path = paths.floor(number)
        try:
            put_own(self.store, path, raw, self.clock, Mode.CREATE)
        except Corrupt:
            raise Contended("another gc changed the floor concurrently", hint="try again") from None

    def _floors(self) -> Iterator[int]:
        for meta in listed_surely(self.store, paths.FLOORS):
            if (number := paths.floor_number(meta.path)) is not None:
                yield number

    def first_where(
        self, holds: Callable[[Head], bool], floor: Floor, high: Head
    ) -> tuple[Head | None, int]:
        """The first kept generation for which a monotone predicate holds, up to `high`.

        With the generation kept right before it; 0 if there is none.
        """
        numbers = KeptGenerations(floor, high.generation)
        if not holds(high):
            return None, high.generation
        best, low, top = high, 0, len(numbers) - 1
        while low < top:
            middle = (low + top) // 2
            candidate = self.read(numbers[middle])
            if holds(candidate):
                best, top = candidate, middle
            else:
                low = middle + 1
        return best, numbers[top - 1] if top else 0


class KeptGenerations(Sequence[int]):
    """The numbers of all generations that a floor keeps, up to a head, in order."""

    def __init__(self, floor: Floor, newest: int) -> None:
        self._floor = floor
        self._newest = newest

    def __len__(self) -> int:
        return len(self._floor.thinned) + self._newest + 1 - self._floor.generation

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError(index)
        thinned = self._floor.thinned
        if index < len(thinned):
            return thinned[index].generation
        return self._floor.generation + index - len(thinned)
