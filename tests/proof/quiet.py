"""The lease of a quiet session: one that nobody relied on when it ended. There a proof counts at once,
so that the first lock does not wait. It is safe where the leader ends sessions in one step: when
nothing happens between its decision and the mark.

Not here: sessions whose lease somebody relies on, and those that are resumed late (`lease`).
"""

from dataclasses import replace

from z3 import Implies

import lease
from kit import Shown, Weaker, weaker


def quiet(system):
    """A proof counts whenever it comes."""
    at_once = weaker(system, "answer W2", changes={"proved": lambda s: True, "doubted": lambda s: False})
    invariants = at_once.invariants | {
        "what is handled counts": lambda s: Implies(s.w2 >= lease.HANDLED, s.until >= s.sent_l + 1)}
    reached = {"a lease that has ended is proved by two requests": Shown(
        lambda s: s.proved, f"{lease.PROVED}")}
    # The third write is for sessions that are resumed late.
    reached |= {name: shown for name, shown in system.reached.items() if "third write" not in name}
    return replace(at_once, name="quiet", invariants=invariants, reached=reached)


def in_one_step(system):
    facts = {"the leader ends sessions in one step": lambda s: s.mark == 0}
    return replace(system, facts=system.facts | facts)


SYSTEM = quiet(lease.lease(replace(lease.SHIPPED, mark=0)))
ANY = in_one_step(quiet(lease.ANY))
(VALID,) = SYSTEM.promises
WEAKER = [
    Weaker("the leader ends sessions in two steps", quiet(lease.SYSTEM), VALID,
           f"{lease.TOLD_LATE}, decide to end the session, tell the leader, {lease.SECOND}, end the session"),
]
