"""Finding the head, and reading manifests.

The head is the root manifest with the greatest generation. It is found from a
hint by probing upwards. The hint may be stale, lost, or even have gone back: it
only says where to start. What must hold is that every generation between the
starting point and the head exists. GC removes generations from below, and only
such that are older than its age gate. So a start is safe if this process saw it as
the head less than a tenth of the gate ago, or if it was published less than that ago;
a time in the future says that a clock is wrong. Any other start is confirmed by a
listing, which costs one call in a workspace that has been idle for hours.

Only NotFound means empty. Anything else fails closed.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from arco.clock import Clock
from arco.errors import Corrupt, Error, NotFound
from arco.log.manifest import (
    FORMAT,
    DomainManifest,
    Floor,
    Hint,
    Ref,
    RootManifest,
    decode,
    decode_sealed,
    encode_sealed,
    sha256,
    verified,
)
from arco.storage import paths
from arco.storage.own import put_own
from arco.storage.port import Mode, ObjectMeta, Store
from arco.storage.seal import listed_surely, read_checked
from arco.storage.store_clock import BOUND

EPOCH = datetime(1970, 1, 1)
AGE_GATE = timedelta(hours=24)


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
        self._domains: OrderedDict[str, DomainManifest] = OrderedDict()
        self._lock = threading.Lock()
        self._known: Head | None = None
        self._known_at = (0.0, EPOCH)
        """When that was seen to be the head, by both clocks."""

    def head(self) -> Head:
        """The newest generation, read from the store."""
        start = self._start()
        if start is None:
            return genesis(self.tenant, self.workspace)
        now = (self.clock.monotonic(), self.clock.now())
        found = self._probe(start)
        self._known, self._known_at = found, now
        return found

    def _start(self) -> Head | None:
        if self._known is not None and self._was_just_head():
            return self._known
        candidates = [h for h in (self._known, self._hinted()) if h is not None]
        newest = max(candidates, key=lambda h: h.generation, default=None)
        if newest is not None and self._recent(newest):
            return newest
        return self.listed(newest)

    def _was_just_head(self) -> bool:
        """Both clocks are asked: the monotonic one stands still while a machine sleeps."""
        limit = self.age_gate / 10
        elapsed_s = self.clock.monotonic() - self._known_at[0]
        elapsed = self.clock.now() - self._known_at[1]
        return elapsed_s < limit.total_seconds() and abs(elapsed) < limit

    def _recent(self, head: Head) -> bool:
        age = self.clock.now() - head.manifest.published_at
        return -BOUND < age < self.age_gate / 10

    def _hinted(self) -> Head | None:
        hint = self.hint()
        return None if hint is None else self.find(hint.generation)

    def listed(self, above: Head | None) -> Head | None:
        """The newest generation by a listing, which is what we do when in doubt."""
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
        while (found := self.find(low.generation + step)) is not None:
            low, step = found, step * 2
        high = low.generation + step
        while high - low.generation > 1:
            middle = (low.generation + high) // 2
            found = self.find(middle)
            if found is None:
                high = middle
            else:
                low = found
        return low

    def find(self, generation: int) -> Head | None:
        try:
            return self.read(generation)
        except NotFound:
            return None

    def read(self, generation: int) -> Head:
        """One generation. Raises NotFound if it never was, or was collected."""
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
        found = self._domains.get(ref.sha256)
        if found is None:
            try:
                found = read_checked(self.store, ref.path, lambda raw: _domain(raw, ref))
            except NotFound:
                raise Corrupt(f"{ref.path} is missing", hint="run `servo admin fsck`") from None
            self.remember(ref, found)
        return found

    def remember(self, ref: Ref, manifest: DomainManifest) -> None:
        with self._lock:
            self._domains[ref.sha256] = manifest
            while len(self._domains) > self._cache_size:
                self._domains.popitem(last=False)

    def rewritten(self, since: int, head: Head) -> bool:
        """Whether rows changed without an event between two generations, or that is unknown.

        A rebuild and a rollback do that: what was derived from the older one is void.
        """
        if head.generation - since > 64:
            return True  # not worth reading that many manifests
        for generation in range(since + 1, head.generation + 1):
            found = self.find(generation)
            if found is None or found.manifest.kind not in ("events", "merge"):
                return True
        return False

    def domains(self, head: Head) -> dict[str, DomainManifest]:
        return {name: self.domain(ref) for name, ref in head.manifest.domains.items()}

    def hint(self) -> Hint | None:
        try:
            return decode_sealed(self.store.get(paths.HINT).data, Hint, paths.HINT)
        except (NotFound, Corrupt):
            return None  # a broken hint is no hint: the listing decides

    def write_hint(self, head: Head) -> None:
        """Point at `head`, unless the hint is already past it."""
        current = self.hint()
        if current is None or current.generation < head.generation:
            raw = encode_sealed(Hint(head.generation, head.sha256))
            self.store.put(paths.HINT, raw, Mode.OVERWRITE)

    def advance(self, head: Head) -> None:
        """Remember a head that this process created."""
        if self._known is None or self._known.generation < head.generation:
            self._known = head
            self._known_at = (self.clock.monotonic(), self.clock.now())

    def floor(self) -> int:
        """The lowest generation that GC promises to keep.

        Floors are numbered objects, and the greatest holds: one that arrives late, or
        from a collector that slept, cannot put it back.
        """
        return max(self._floors(), default=1)

    def raise_floor(self, generation: int) -> None:
        """Let nobody open what lies below. Whoever does this looks at the pins only after it."""
        below = sorted(self._floors())
        if generation <= max(below, default=1):
            return
        floor = encode_sealed(Floor(generation))
        put_own(self.store, paths.floor(generation), floor, self.clock, Mode.CREATE)
        for number in below[:-1]:  # one stays, for whoever lists while this goes on
            with contextlib.suppress(Error):
                self.store.delete(paths.floor(number))

    def _floors(self) -> Iterator[int]:
        for meta in listed_surely(self.store, paths.FLOORS):
            if (generation := paths.floor_generation(meta.path)) is not None:
                yield generation

    def first_where(self, holds: Callable[[Head], bool], low: int, high: Head) -> Head | None:
        """The first generation in low..high for which a monotone predicate holds."""
        if not holds(high):
            return None
        best = high
        while low < best.generation:
            middle = (low + best.generation) // 2
            found = self.read(middle)
            if holds(found):
                best = found
            else:
                low = middle + 1
        return best


def _domain(raw: bytes, ref: Ref) -> DomainManifest:
    return decode(verified(raw, ref.sha256, ref.path), DomainManifest, ref.path)
