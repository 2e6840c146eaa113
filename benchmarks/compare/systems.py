"""The rows of a run, by store and by names of peers."""

from __future__ import annotations

from importlib import import_module

from benchmarks import peers
from benchmarks.system import System


class UnknownPeer(ValueError):
    """No peer has this name on this store; the message says which there are."""


def systems(store: str, chosen: str) -> tuple[System, ...]:
    """A peer, ours, the other peers, the floor: our figures are never far from theirs in time."""
    ours, floor = (
        [system for system in import_module(f"benchmarks.{name}").SYSTEMS if system.store == store]
        for name in ("ours", f"floor.{store}")
    )
    first, *others = [*_peers(store, chosen), None]
    return tuple(system for system in (first, *ours, *others, *floor) if system is not None)


def _peers(store: str, chosen: str) -> list[System]:
    known = peers.known(store)
    names = {"all": list(known), "none": []}.get(chosen, chosen.split(","))
    if unknown := sorted(set(names) - set(known)):
        raise UnknownPeer(f"{', '.join(unknown)}: known for {store} are {', '.join(known)}")
    return [system for name in names for system in known[name]]
