"""Planted mistakes: in systems, in invariants, in weaker rules. Each must be noticed, or what
`prove.py` prints means nothing.

Not here: mistakes in the product (`tests/mutations`).
"""

from dataclasses import replace

from z3 import And, BoolVal, Not

import lease
import plain
import room
from kit import Rule, Weaker, parts, prove, search, weaker


def proved(system):
    return all(obligation.is_proved for part in parts(system) for obligation in prove(system, part))


def reached(system):
    """Each story leads to what it shows, and the stories take all steps."""
    taken = set()
    for shown in system.reached.values():
        history = search(system, lambda _, state: shown.claim(state), shown.story)
        if not history:
            return False
        taken |= {step for step, _ in history}
    return taken == set(system.steps)


ROOM, PLAIN = room.SYSTEM, plain.SYSTEM
NEVER = lambda s, *_: BoolVal(False)
ANY = lease.lease()

# What is planted: what must be false.
MISTAKES = {
    "an invariant that does not hold": lambda: proved(replace(ROOM, invariants=ROOM.invariants | {
        "nobody waits": lambda s: s.phase != room.WAITS})),
    "an invariant that does not hold at the beginning": lambda: proved(replace(ROOM, invariants=ROOM.invariants | {
        "somebody waits": lambda s: s.phase == room.WAITS})),
    "an invariant that is missing": lambda: proved(replace(PLAIN, invariants={
        name: claim for name, claim in PLAIN.invariants.items() if name != "behind the barrier nothing is late"})),
    "a promise that does not hold": lambda: proved(replace(ROOM, promises={"nobody holds": lambda s: s.phase != room.HOLDS})),
    "a promise about two states that does not hold": lambda: proved(replace(ROOM, lasting={
        "nothing is told": lambda s, t: t.view == s.view})),
    "a step that breaks the promises": lambda: proved(weaker(ROOM, "wake", changes={"phase": lambda s: room.WAITS})),
    "constants of the lease without their bound": lambda: proved(replace(ANY, facts={
        name: fact for name, fact in ANY.facts.items() if name != "a ping falls into the wait"})),
    "facts that contradict each other": lambda: reached(replace(ROOM, facts={"nothing": NEVER})),
    "a beginning that is none": lambda: reached(replace(ROOM, begin=NEVER)),
    "a step that nobody can take": lambda: reached(weaker(ROOM, "link", needs={
        "it is cut off": lambda s, view: And(s.linked, Not(s.linked))})),
    "a further step that no story takes": lambda: reached(replace(ROOM, steps=ROOM.steps | {
        "rest": ("", lambda s: Rule({}, {}))})),
    "a weaker rule that is as strong": lambda: Weaker(
        "", ROOM, room.SLEEP, "list, cut, link, read the limit").refute() is not None,
}
