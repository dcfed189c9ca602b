"""The semaphore: never more permits than the limit, for any limit and any number of waiters.

Counting needs no numbers: the permits are at most the limit if each of them has a slot of its own,
and the limit is a set of slots. Who is granted permits has seen a listing with a slot for each permit
in it: `slot` is that choice.

A waiter is the session that asks. That only the first waiter of the queue adds permits is what
`queue_lock` proves. What it knew of the former one does not matter: a listing that shows a permit of
ours is newer than all permits that were there when we came.

Not here: the queue of the waiters (`queue_lock`), waiting for a change (`room`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without
from nodes import lives, lose_lease, renew_lease, there, times


def held(s, permit):
    return And(lives(s, permit), s.granted(s.owner(permit)))


def begin(s):
    return And(s.now == 0, s.all("Permit", lambda l: And(s.born(l) == 0, s.died(l) == 0)), s.all("Session", lambda e: And(
        Not(s.first(e)), Not(s.waits(e)), Not(s.granted(e)), Not(s.over(e)), s.valid(e), s.came(e) == 0,
        s.listed(e) == 0, s.read(e) == 0)))


def enter(s, session):
    return Rule({
        "nobody else is first": s.all("Session", lambda e: Not(s.first(e))),
        "it is new": And(s.came(session) == 0, Not(s.over(session))),
    }, {
        "now": s.now + 1, "first": put(s.first, session, True), "waits": put(s.waits, session, True),
        "came": put(s.came, session, s.now + 1)})


def leave(s, session):
    return Rule({"it is first": s.first(session)}, {
        "now": s.now + 1, "first": put(s.first, session, False), "waits": put(s.waits, session, False)})


def expire(s, session):
    """Its permits and its place in the queue go at once. It does not know of that."""
    return Rule({"its lease has ended": Not(s.valid(session)), "it lives": Not(s.over(session))}, {
        "now": s.now + 1, "over": put(s.over, session, True), "first": put(s.first, session, False),
        "died": lambda l: If(And(s.owner(l) == session, lives(s, l)), s.now + 1, s.died(l))})


def add(s, permit):
    owner = s.owner(permit)
    return Rule({
        "the permit is new": s.born(permit) == 0,
        "its waiter is the first one": s.first(owner),
        "it has none granted": Not(s.granted(owner)),
    }, {"now": s.now + 1, "born": put(s.born, permit, s.now + 1)})


def release(s, permit):
    return Rule({"the permit lives": lives(s, permit)}, {"now": s.now + 1, "died": put(s.died, permit, s.now + 1)})


def set_limit(s):
    """Somebody changes the limit. Its value is a function of the time."""
    return Rule({}, {"now": s.now + 1})


def make_list(s, session, view):
    return Rule({
        "it is first, as far as it knows": And(s.waits(session), Not(s.granted(session))),
        "some prefix": And(0 < view, view <= s.now),
    }, {"listed": put(s.listed, session, view), "read": put(s.read, session, 0)})


def read_limit(s, session, view):
    return Rule({
        "it is first, as far as it knows": And(s.waits(session), Not(s.granted(session))),
        "the permits were listed before": And(s.listed(session) > 0, s.listed(session) <= view),
        "no later than now": view <= s.now,
    }, {"read": put(s.read, session, view)})


def fits(s, session, one, other):
    """In its listing these permits have slots, and not the same."""
    shown = lambda l: there(s, l, s.listed(session))
    return And(Implies(shown(one), s.open(s.read(session), s.slot(session, one))),
               Implies(And(shown(one), shown(other), one != other), s.slot(session, one) != s.slot(session, other)))


def grant(s, session):
    own = lambda l: And(s.owner(l) == session, s.born(l) > 0)
    return Rule({
        "it has listed the permits, and read the limit": And(s.waits(session), s.listed(session) > 0, s.read(session) > 0),
        "it has permits": s.some("Permit", own),
        "the listing shows all its permits": s.all("Permit", lambda l: Implies(own(l), there(s, l, s.listed(session)))),
        "there is room": s.all("Permit Permit", lambda l, k: fits(s, session, l, k)),
        "the lease of the session is valid": s.valid(session),
    }, {"granted": put(s.granted, session, True)})


ROOM = "P1: the permits that are held are within the limit that the last of them has read"
READ = "P1: when a grant read the limit, all permits were within it"
THERE = "P6: permits that are granted were there"
SESSION = "P2: who is granted permits has its session"

SYSTEM = System(
    name="semaphore",
    sorts={"Permit": 2, "Session": 3, "Slot": 2},
    fixed={"owner": "Permit -> Session", "slot": "Session Permit -> Slot", "open": "Int Slot -> Bool"},
    variables={
        "now": "Int", "born": "Permit -> Int", "died": "Permit -> Int",
        "first": "Session -> Bool", "waits": "Session -> Bool",  # it is the first one, and takes itself for it
        "valid": "Session -> Bool", "over": "Session -> Bool", "granted": "Session -> Bool",
        "came": "Session -> Int",  # when it became the first one
        "listed": "Session -> Int", "read": "Session -> Int",  # at which prefixes; 0: not yet
    },
    begin=begin,
    steps={
        "enter": ("Session", enter), "leave": ("Session", leave), "lose the lease": ("Session", lose_lease),
        "renew the lease": ("Session", renew_lease), "expire": ("Session", expire), "add": ("Permit", add),
        "release": ("Permit", release), "set the limit": ("", set_limit),
        "list": ("Session Int", make_list), "read the limit": ("Session Int", read_limit), "grant": ("Session", grant),
    },
    invariants={
        "times": lambda s: times(s, "Permit"),
        "views": lambda s: s.all("Session", lambda e: And(
            0 <= s.came(e), s.came(e) <= s.now, 0 <= s.listed(e), s.listed(e) <= s.now, s.read(e) <= s.now,
            Or(s.read(e) == 0, And(s.listed(e) > 0, s.listed(e) <= s.read(e))))),
        "sessions": lambda s: s.all("Session", lambda e: And(
            Not(And(s.first(e), s.over(e))), Not(And(s.valid(e), s.over(e))),
            Implies(s.waits(e), s.came(e) > 0), s.first(e) == And(s.waits(e), Not(s.over(e))))),
        "one is first": lambda s: s.all("Session Session", lambda e, f: Implies(And(s.first(e), s.first(f)), e == f)),
        "its permits came behind it": lambda s: s.all("Permit", lambda l: Implies(s.born(l) > 0, And(
            s.came(s.owner(l)) > 0, s.came(s.owner(l)) < s.born(l)))),
        "permits of others came before it": lambda s: s.all("Session Permit", lambda e, l: Implies(
            And(s.first(e), s.owner(l) != e), s.born(l) <= s.came(e))),
        "its permits were shown": lambda s: s.all("Session Permit", lambda e, l: Implies(
            And(s.granted(e), s.owner(l) == e, s.born(l) > 0), there(s, l, s.listed(e)))),
        "no permit came between listing and limit": lambda s: s.all("Session Permit", lambda e, l: Implies(
            And(s.granted(e), s.born(l) > 0), Or(s.born(l) <= s.listed(e), s.born(l) > s.read(e)))),
        "permits had room": lambda s: s.all("Session Permit Permit", lambda e, l, k: Implies(s.granted(e), fits(s, e, l, k))),
    },
    promises={
        # Of all permits that are held, take the one that was created last. Its listing had a slot for each of them.
        ROOM: lambda s: s.all("Permit Permit Permit", lambda last, l, k: Implies(
            And(held(s, last), held(s, l), held(s, k), s.born(l) <= s.born(last), s.born(k) <= s.born(last)), And(
                s.open(s.read(s.owner(last)), s.slot(s.owner(last), l)),
                Or(l == k, s.slot(s.owner(last), l) != s.slot(s.owner(last), k))))),
        READ: lambda s: s.all("Session Permit Permit", lambda e, l, k: Implies(
            And(s.granted(e), there(s, l, s.read(e)), there(s, k, s.read(e))), And(
                s.open(s.read(e), s.slot(e, l)), Or(l == k, s.slot(e, l) != s.slot(e, k))))),
        THERE: lambda s: s.all("Permit", lambda l: Implies(
            And(s.granted(s.owner(l)), s.born(l) > 0), there(s, l, s.listed(s.owner(l))))),
    },
    lasting={
        SESSION: lambda s, t: t.all("Session", lambda e: Implies(And(t.granted(e), Not(s.granted(e))), Not(t.over(e)))),
    },
    reached={
        "two holders, when the limit was raised": Shown(lambda s: s.some("Permit Permit", lambda l, k: And(
            s.owner(l) != s.owner(k), held(s, l), held(s, k))),
            "enter, add, list, read the limit, grant, leave, enter, add, set the limit, list, read the limit, grant"),
        "two permits of one holder": Shown(lambda s: s.some("Permit Permit", lambda l, k: And(
            l != k, s.owner(l) == s.owner(k), held(s, l), held(s, k))), "enter, add, add, list, read the limit, grant"),
        "a holder after another, within a limit of one": Shown(lambda s: s.some("Permit Permit Slot", lambda l, k, o: And(
            s.granted(s.owner(l)), held(s, k), s.owner(l) != s.owner(k), s.all("Slot", lambda p: Not(And(
                s.open(s.read(s.owner(k)), p), p != o))))),
            "enter, add, list, read the limit, grant, leave, release, enter, add, list, read the limit, grant"),
        "a holder after a session has ended": Shown(
            lambda s: s.some("Permit Session", lambda l, e: And(held(s, l), s.over(e))),
            "enter, add, lose the lease, renew the lease, lose the lease, expire, enter, add, list, read the limit, grant"),
    },
    depth=12,
)


def one_too_many(s, session):
    return s.some("Permit", lambda x: s.all("Permit Permit", lambda l, k: Or(l == x, k == x, fits(s, session, l, k))))


def in_the_next_session(s, permit):
    return Or(s.first(s.owner(permit)), s.some("Session", lambda e: And(e != s.owner(permit), s.over(e))))


def without_its_place(s, session, *_):
    return And(s.came(session) > 0, Not(s.granted(session)))


FIRST = "it is first, as far as it knows"
COUNTED = weaker(weaker(weaker(
    SYSTEM, "list", needs={FIRST: without_its_place}), "read the limit", needs={FIRST: without_its_place}),
    "grant", needs={"it has listed the permits, and read the limit": lambda s, e: And(s.listed(e) > 0, s.read(e) > 0)})

WEAKER = [
    Weaker("the limit is read before the permits", without(SYSTEM, "read the limit", "the permits were listed before"), READ,
           "enter, add, release, leave, enter, add, list, read the limit, grant"),
    Weaker("any waiter adds permits", without(SYSTEM, "add", "its waiter is the first one"), READ,
           "add, add, enter, list, read the limit, grant"),
    Weaker("a permit in another session than its place", weaker(
        SYSTEM, "add", needs={"its waiter is the first one": in_the_next_session}), READ,
           "lose the lease, enter, add, expire, add, list, read the limit, grant"),
    Weaker("permits are counted by a listing that is older than one of them", without(
        SYSTEM, "grant", "the listing shows all its permits"), ROOM, "enter, list, add, read the limit, grant",
        faults=["permits are counted without a look whether the own ones are among them"]),
    Weaker("one permit too many", weaker(SYSTEM, "grant", needs={"there is room": one_too_many}), ROOM,
           "enter, add, list, read the limit, grant"),
    Weaker("a grant without a count", without(SYSTEM, "grant", "there is room"), ROOM, "enter, add, list, read the limit, grant"),
    Weaker("a waiter leaves the queue before it has its permits", COUNTED, READ,
           "enter, add, list, leave, enter, add, read the limit, grant"),
    Weaker("two waiters are first", without(SYSTEM, "enter", "nobody else is first"), READ,
           "enter, enter, add, add, list, read the limit, grant"),
    Weaker("a holder adds permits without a place in the queue", without(
        without(SYSTEM, "add", "it has none granted"), "add", "its waiter is the first one"), THERE,
           "add, enter, list, read the limit, grant, add"),
    Weaker("the lease of the session has ended", without(SYSTEM, "grant", "the lease of the session is valid"), SESSION,
           "lose the lease, enter, add, list, expire, read the limit, grant",
           faults=["a permit is granted without a look after the lease of the session has ended"]),
]
