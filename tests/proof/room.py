"""No wake-up of a semaphore is lost: its first waiter sleeps only while the permits and the limit
are as it has counted them.

The waiter lists the permits, reads the limit, and waits for a change of either. Its server applies
the writes in their order.

Not here: what it counts (`semaphore`), the waiters behind it (`wakeups`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker

LISTS, READS, WAITS, HOLDS = range(4)


def asleep(s):
    return And(s.linked, s.phase == WAITS, Not(s.event))


def unchanged(s, changes, since, view):
    """No write behind the first of these prefixes, up to the second."""
    return s.all("Int", lambda t: Implies(And(since < t, t <= view), Not(changes(t))))


def begin(s):
    return And(s.now == 0, s.view == 0, s.phase == LISTS, s.linked, Not(s.event), Not(s.is_watched), Not(s.permits), Not(s.limit),
               s.listed == 0, s.read == 0, s.all("Int", lambda t: And(Not(s.permits_at(t)), Not(s.limit_at(t)))))


def change_permits(s):
    return Rule({}, {"now": s.now + 1, "permits_at": put(s.permits_at, s.now + 1, True)})


def change_limit(s):
    return Rule({}, {"now": s.now + 1, "limit_at": put(s.limit_at, s.now + 1, True)})


def apply(s):
    """Its server applies the next write."""
    at = s.view + 1
    fires = Or(And(s.permits, s.permits_at(at)), And(s.limit, s.limit_at(at)))
    return Rule({"it is linked": s.linked, "there is one": s.view < s.now}, {
        "view": at, "event": Or(s.event, fires), "permits": And(s.permits, Not(s.permits_at(at))),
        "limit": And(s.limit, Not(s.limit_at(at)))})


def make_list(s, with_watch):
    """The listing behind a create has no watch."""
    return Rule({"it lists": And(s.linked, s.phase == LISTS)}, {
        "phase": READS, "listed": s.view, "is_watched": with_watch, "permits": Or(s.permits, with_watch), "event": False})


def read_limit(s):
    waits = If(s.is_watched, s.literal(WAITS), s.literal(LISTS))
    return Rule({"it reads": And(s.linked, s.phase == READS)}, {
        "read": s.view, "limit": True, "phase": If(s.room(s.listed, s.view), s.literal(HOLDS), waits)})


def wake(s):
    return Rule({"an event is on its way": And(s.linked, s.event), "it waits": s.phase == WAITS}, {
        "event": False, "phase": LISTS})


def cut(s):
    return Rule({"it is linked": s.linked}, {"linked": False, "event": False, "permits": False, "limit": False})


def link(s, view):
    """The first request on it sets the watches again, and the server compares."""
    same_permits, same_limit = unchanged(s, s.permits_at, s.listed, view), unchanged(s, s.limit_at, s.read, view)
    wants_permits, wants_limit = And(s.is_watched, s.phase != LISTS), s.phase == WAITS
    return Rule({"it is cut off": Not(s.linked), "no earlier data": And(s.view <= view, view <= s.now)}, {
        "linked": True, "view": view, "permits": And(wants_permits, same_permits), "limit": And(wants_limit, same_limit),
        "event": Or(And(wants_permits, Not(same_permits)), And(wants_limit, Not(same_limit)))})


SLEEP, COUNT = "P8: who sleeps has watches on the permits and on the limit", "P8: who sleeps has counted what its server shows"

SYSTEM = System(
    name="semaphore's wake-ups",
    sorts={},
    fixed={"room": "Int Int -> Bool"},
    variables={
        "now": "Int", "permits_at": "Int -> Bool", "limit_at": "Int -> Bool",  # which writes change them
        "view": "Int", "linked": "Bool", "event": "Bool", "permits": "Bool", "limit": "Bool",  # its server; the watches
        "phase": "Int", "listed": "Int", "read": "Int", "is_watched": "Bool",
    },
    begin=begin,
    steps={
        "change the permits": ("", change_permits), "change the limit": ("", change_limit), "apply": ("", apply),
        "list": ("Bool", make_list), "read the limit": ("", read_limit), "wake": ("", wake), "cut": ("", cut), "link": ("Int", link),
    },
    invariants={
        "times": lambda s: And(0 <= s.listed, s.listed <= s.view, s.read <= s.view, s.view <= s.now, Implies(
            s.phase == WAITS, s.listed <= s.read)),
        "phases": lambda s: And(LISTS <= s.phase, s.phase <= HOLDS, Implies(s.phase == WAITS, s.is_watched),
                                Implies(s.phase == WAITS, Not(s.room(s.listed, s.read)))),
        "a watch on the permits": lambda s: Implies(And(s.linked, s.is_watched, Or(s.phase == READS, s.phase == WAITS)), Or(
            s.event, And(s.permits, unchanged(s, s.permits_at, s.listed, s.view)))),
        "a watch on the limit": lambda s: Implies(And(s.linked, s.phase == WAITS), Or(
            s.event, And(s.limit, unchanged(s, s.limit_at, s.read, s.view)))),
    },
    promises={
        SLEEP: lambda s: Implies(asleep(s), And(s.permits, s.limit)),
        COUNT: lambda s: Implies(asleep(s), And(
            Not(s.room(s.listed, s.read)), unchanged(s, s.permits_at, s.listed, s.view), unchanged(s, s.limit_at, s.read, s.view))),
    },
    reached={
        "somebody sleeps, and holds later": Shown(
            lambda s: s.phase == HOLDS,
            "list, read the limit, list, read the limit, change the permits, apply, wake, list, read the limit"),
        "an event that a cut lost is made up for": Shown(
            lambda s: s.phase == HOLDS,
            "list, read the limit, change the limit, cut, link, wake, list, read the limit"),
    },
    depth=8,
)

WEAKER = [
    Weaker("a waiter for a permit waits without a watch", weaker(SYSTEM, "read the limit", changes={
        "phase": lambda s: If(s.room(s.listed, s.view), s.literal(HOLDS), s.literal(WAITS))}), SLEEP, "list, read the limit",
        faults=["a waiter for a permit waits without a watch"]),
    Weaker("a waiter goes on waiting after a change", weaker(SYSTEM, "wake", changes={"phase": lambda s: WAITS}), SLEEP,
           "list, change the permits, apply, read the limit, wake",
           faults=["a waiter for a permit does not read the limit again"]),
    Weaker("the limit is read without a watch", weaker(SYSTEM, "read the limit", changes={"limit": lambda s: s.limit}), SLEEP,
           "list, read the limit"),
    Weaker("watches are not restored after a reconnect", weaker(SYSTEM, "link", changes={
        name: lambda s, view: False for name in ("permits", "limit", "event")}), SLEEP, "list, cut, link, read the limit"),
    Weaker("watches are restored without a comparison", weaker(SYSTEM, "link", changes={
        "permits": lambda s, view: True, "limit": lambda s, view: True, "event": lambda s, view: False}), COUNT,
           "change the permits, list, read the limit, cut, link"),
]
