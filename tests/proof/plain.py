"""The plain lock: one node with a fixed name, which the next holder uses, too.

A node of the proof is one life of that name, and its contender. The request to delete names no
life, so it deletes whatever is there: the danger is a request that arrives when the next holder is
there. Tasks of one client contend in one session.

Not here: waiting for the node (`wakeups`), a create whose reply was lost (`life`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, with_step, without
from nodes import lives, lose_lease, renew_lease, there, times


def over(s, node):
    return s.over(s.owner(node))


def begin(s):
    return And(s.now == 0, s.all("Session", lambda e: And(s.valid(e), Not(s.over(e)))), s.all("Node", lambda n: And(
        s.born(n) == 0, s.died(n) == 0, Not(s.granted(n)), Not(s.sent(n)), Not(s.lost(n)), Not(s.released(n)), s.barrier(n) == 0,
        Not(s.wrong(n)))))


def create(s, node):
    return Rule({
        "the node is new": s.born(node) == 0,
        "nobody has the name": s.all("Node", lambda n: Not(lives(s, n))),
        "its session lives": Not(over(s, node)),
    }, {"now": s.now + 1, "born": put(s.born, node, s.now + 1)})


def grant(s, node, shown, view):
    """The reply to its create, or a look after that was lost, shows a node."""
    return Rule({
        "it is not granted yet": Not(s.granted(node)),
        "a node is shown": And(there(s, shown, view), view <= s.now),
        "the node is of our session": s.owner(shown) == s.owner(node),
        "the node is ours": shown == node,
        "the lease of our session is valid": s.valid(s.owner(node)),
    }, {"granted": put(s.granted, node, True)})


def expire(s, session):
    """No request of it is answered from now on."""
    return Rule({"its lease has ended": Not(s.valid(session)), "it lives": Not(s.over(session))}, {
        "now": s.now + 1, "over": put(s.over, session, True),
        "died": lambda n: If(And(s.owner(n) == session, lives(s, n)), s.now + 1, s.died(n))})


def release(s, node):
    return Rule({"it holds the lock": And(s.granted(node), Not(s.released(node)))}, {
        "released": put(s.released, node, True), "sent": put(s.sent, node, True)})


def arrive(s, node):
    """The delete arrives."""
    return Rule({"it is on its way": s.sent(node), "it goes out in the session of the node": Not(over(s, node))}, {
        "now": s.now + 1, "sent": put(s.sent, node, False),
        "died": lambda n: If(lives(s, n), s.now + 1, s.died(n)),
        "wrong": put(s.wrong, node, Or(s.wrong(node), s.some("Node", lambda n: And(lives(s, n), n != node))))})


def cut(s, node):
    """The connection is lost. The delete may still arrive."""
    return Rule({"it is being released": s.released(node)}, {"lost": put(s.lost, node, True)})


def link(s, node):
    """The next connection. What was on its way on the former one never arrives, since the client
    dials no server that owes a write (`life`). The client sends its barrier, which is a write."""
    return Rule({"the connection was lost": And(s.lost(node), s.barrier(node) == 0)}, {
        "now": s.now + 1, "sent": put(s.sent, node, False), "barrier": put(s.barrier, node, s.now + 1)})


def again(s, node, view):
    """A look behind the barrier shows our node: the delete was not applied."""
    return Rule({
        "the connection was lost": And(s.lost(node), s.barrier(node) > 0, Not(s.sent(node))),
        "the look is behind the barrier": s.barrier(node) <= view,
        "the look shows our node": there(s, node, view),
        "no later than now": view <= s.now,
    }, {"lost": put(s.lost, node, False), "barrier": put(s.barrier, node, 0), "sent": put(s.sent, node, True)})


HOLDERS = "P1: no two holders"
OTHERS = "P6: nobody deletes the node of another"
KEPT = "P6: a holder keeps its node until it releases it, or its session ends"
SESSION = "P2: who is granted the lock has its session"

SYSTEM = System(
    name="plain lock",
    sorts={"Node": 3, "Session": 2},
    fixed={"owner": "Node -> Session"},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int", "valid": "Session -> Bool", "over": "Session -> Bool",
        "granted": "Node -> Bool", "released": "Node -> Bool", "sent": "Node -> Bool", "lost": "Node -> Bool",
        "barrier": "Node -> Int", "wrong": "Node -> Bool",  # its delete has deleted the node of another contender
    },
    begin=begin,
    steps={
        "create": ("Node", create), "grant": ("Node Node Int", grant), "lose the lease": ("Session", lose_lease),
        "renew the lease": ("Session", renew_lease), "expire": ("Session", expire), "release": ("Node", release),
        "arrive": ("Node", arrive), "cut": ("Node", cut), "link": ("Node", link), "again": ("Node Int", again),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), s.all("Node", lambda n: s.barrier(n) <= s.now)),
        "sessions": lambda s: And(s.all("Session", lambda e: Not(And(s.valid(e), s.over(e)))), s.all("Node", lambda n: Not(And(
            lives(s, n), over(s, n))))),
        "only a holder releases": lambda s: s.all("Node", lambda n: And(
            Implies(s.granted(n), s.born(n) > 0), Implies(s.released(n), s.granted(n)),
            Implies(Or(s.sent(n), s.lost(n)), s.released(n)), Implies(s.barrier(n) > 0, s.lost(n)))),
        "the next life is later": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(lives(s, n), s.born(m) > 0, n != m), And(s.died(m) > 0, s.died(m) < s.born(n)))),
        "a delete on its way is for a node that is there": lambda s: s.all("Node", lambda n: Implies(
            And(s.sent(n), Not(over(s, n))), lives(s, n))),
        "only its own delete ends it": lambda s: s.all("Node", lambda n: Implies(
            And(s.born(n) > 0, Not(over(s, n)), Not(s.released(n))), lives(s, n))),
        "behind the barrier nothing is late": lambda s: s.all("Node", lambda n: Implies(
            And(s.barrier(n) > 0, Not(over(s, n))), And(Not(s.sent(n)), Or(s.died(n) == 0, s.died(n) < s.barrier(n))))),
        "nothing is wrong": lambda s: s.all("Node", lambda n: Not(s.wrong(n))),
    },
    promises={
        HOLDERS: lambda s: s.all("Node Node", lambda n, m: Implies(And(
            s.granted(n), s.granted(m), Not(s.released(n)), Not(s.released(m)), s.valid(s.owner(n)), s.valid(s.owner(m))),
            n == m)),
        OTHERS: lambda s: s.all("Node", lambda n: Not(s.wrong(n))),
        KEPT: lambda s: s.all("Node", lambda n: Implies(And(s.granted(n), Not(over(s, n)), Not(s.released(n))), lives(s, n))),
    },
    lasting={
        SESSION: lambda s, t: t.all("Node", lambda n: Implies(And(t.granted(n), Not(s.granted(n))), Not(over(t, n)))),
    },
    reached={
        "a holder after another": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.released(m), s.granted(n), lives(s, n), s.owner(n) == s.owner(m))),
            "create, grant, release, arrive, create, grant"),
        "a delete that was lost and repeated": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.granted(n), lives(s, n), s.released(m), Not(over(s, m)))),
            "create, grant, release, cut, link, again, arrive, create, grant"),
        "a holder after a session has ended": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.granted(n), lives(s, n), s.granted(m), over(s, m))),
            "create, grant, lose the lease, renew the lease, lose the lease, expire, create, grant"),
    },
    depth=10,
)


def delete_by_hand(s, node):
    return Rule({"the node lives": lives(s, node)}, {"now": s.now + 1, "died": put(s.died, node, s.now + 1)})


WEAKER = [
    Weaker("NODE_EXISTS is taken for success", without(SYSTEM, "create", "nobody has the name"), HOLDERS,
           "create, grant, create, grant"),
    Weaker("any node of our session is ours", without(SYSTEM, "grant", "the node is ours"), HOLDERS, "create, grant, grant",
           faults=["a contender takes any node of the plain lock for its own"]),
    Weaker("the lease of our session has ended", without(SYSTEM, "grant", "the lease of our session is valid"), SESSION,
           "create, lose the lease, expire, grant",
           faults=["the plain lock is granted without a look after its lease has ended"]),
    Weaker("a delete whose reply was lost is repeated without a look", without(SYSTEM, "again", "the look shows our node"), OTHERS,
           "create, grant, release, arrive, cut, create, link, again, arrive",
           faults=["the delete of the plain lock is repeated without a look at whose node is there"]),
    Weaker("the look is not behind a barrier", without(SYSTEM, "again", "the look is behind the barrier"), OTHERS,
           "create, grant, release, arrive, create, cut, link, again, arrive"),
    Weaker("a late request arrives after the next connection", weaker(weaker(SYSTEM, "link", changes={"sent": None}), "again", needs={
        "the connection was lost": lambda s, n, v: And(s.lost(n), s.barrier(n) > 0)}), OTHERS,
           "create, grant, release, cut, link, arrive, again, create, arrive"),
    Weaker("a holder deletes the node in the next session", without(SYSTEM, "arrive", "it goes out in the session of the node"), OTHERS,
           "create, grant, lose the lease, expire, release, create, arrive"),
    Weaker("somebody deletes the node by hand (A4 excludes it)", with_step(SYSTEM, "by hand", "Node", delete_by_hand), OTHERS,
           "create, by hand, grant, create, release, arrive"),
]
