"""The plain lock: one node with a fixed name, which the next holder uses, too.

A node of the proof is one life of that name, and its contender. The request to delete names no
life, so it deletes whatever is there: the danger is a request that arrives when the next holder is
there. Tasks of one client contend in one session.

Such a request of a lost connection may lie in the queue of its server. What the leader and the client
make of it is the same as in `life`: the client dials no server that owes an answer. When all of them owe
one, the client goes back, and the plain lock is not safe: one of the weaker rules shows it.

Not here: waiting for the node (`wakeups`), a create whose reply was lost (`life`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, with_step, without
from nodes import lives, lose_lease, renew_lease, there, times


def over(s, node):
    return s.over(s.owner(node))


def begin(s):
    return And(s.now == 0, s.all("Session", lambda e: And(s.valid(e), Not(s.over(e)), s.linked(e))), s.all("Node", lambda n: And(
        s.born(n) == 0, s.died(n) == 0, Not(s.granted(n)), Not(s.sent(n)), Not(s.lost(n)), Not(s.released(n)), s.barrier(n) == 0,
        Not(s.wrong(n)))), s.all("Node Server", lambda n, x: And(Not(s.late(n, x)), Not(s.owes(s.owner(n), x)))),
        s.all("Session Server", lambda e, x: Not(s.owes(e, x))))


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
    is_linked = s.linked(s.owner(node))
    return Rule({"it holds the lock": And(s.granted(node), Not(s.released(node)))}, {
        "released": put(s.released, node, True), "sent": put(s.sent, node, is_linked), "lost": put(s.lost, node, Not(is_linked))})


def deleted(s, node):
    """The delete is applied, to whatever is there."""
    return {"now": s.now + 1, "died": lambda n: If(lives(s, n), s.now + 1, s.died(n)),
            "wrong": put(s.wrong, node, Or(s.wrong(node), s.some("Node", lambda n: And(lives(s, n), n != node))))}


def arrive(s, node):
    """The delete arrives."""
    return Rule({"it is on its way": s.sent(node), "it goes out in the session of the node": Not(over(s, node))},
                deleted(s, node) | {"sent": put(s.sent, node, False)})


def arrive_late(s, node, server):
    return Rule({"it is late there": s.late(node, server), "its session lives": Not(over(s, node)),
                 "the session is there, to the leader": s.at(s.owner(node)) == server},
                deleted(s, node) | {"late": put(s.late, node, server, False)})


def drop_late(s, node, server):
    """The leader refuses it, or has lost its connection to the server."""
    return Rule({"it is late there": s.late(node, server)}, {"late": put(s.late, node, server, False)})


def cut(s, session):
    """The connection is lost. What is on its way may still arrive."""
    own = lambda n: s.owner(n) == session
    is_owed = s.some("Node", lambda n: And(own(n), s.sent(n)))
    return Rule({"there is a connection": s.linked(session)}, {
        "linked": put(s.linked, session, False), "owes": put(s.owes, session, s.at(session), Or(
            s.owes(session, s.at(session)), is_owed)),
        "late": lambda n, x: Or(s.late(n, x), And(own(n), s.sent(n), x == s.at(session))),
        "sent": lambda n: And(s.sent(n), Not(own(n))), "lost": lambda n: Or(s.lost(n), And(own(n), s.released(n))),
        "barrier": lambda n: If(own(n), s.literal(0), s.barrier(n))})


def dial(s, session, server):
    """A handshake whose answer the client does not wait for."""
    return Rule({"there is no connection": Not(s.linked(session)), "the server owes nothing": Not(s.owes(session, server))}, {
        "at": put(s.at, session, server)})


def link(s, session, server):
    rule = dial(s, session, server)
    return Rule(rule.needs, rule.changes | {"linked": put(s.linked, session, True)})


def forget(s, session, server):
    """After a minute."""
    return Rule({"all was applied or dropped": s.all("Node", lambda n: Not(And(s.owner(n) == session, s.late(n, server))))}, {
        "owes": put(s.owes, session, server, False)})


def ask(s, node):
    """The barrier is a write. What its server had before went ahead."""
    session = s.owner(node)
    return Rule({"the delete was lost": And(s.lost(node), s.barrier(node) == 0), "there is a connection": s.linked(session),
                 "its session lives": Not(over(s, node))}, {
        "now": s.now + 1, "barrier": put(s.barrier, node, s.now + 1),
        "late": lambda n, x: And(s.late(n, x), Not(And(s.owner(n) == session, x == s.at(session)))),
        "owes": put(s.owes, session, s.at(session), False)})


def again(s, node, view):
    """A look behind the barrier shows our node: the delete was not applied."""
    return Rule({
        "the delete was lost": s.lost(node),
        "there is a connection": s.linked(s.owner(node)),
        "the look is behind the barrier": And(0 < s.barrier(node), s.barrier(node) <= view),
        "the look shows our node": there(s, node, view),
        "no later than now": view <= s.now,
    }, {"lost": put(s.lost, node, False), "barrier": put(s.barrier, node, 0), "sent": put(s.sent, node, True)})


HOLDERS = "P1: no two holders"
OTHERS = "P6: nobody deletes the node of another"
KEPT = "P6: a holder keeps its node until it releases it, or its session ends"
SESSION = "P2: who is granted the lock has its session"

SYSTEM = System(
    name="plain lock",
    sorts={"Node": 3, "Session": 2, "Server": 2},
    fixed={"owner": "Node -> Session"},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int", "valid": "Session -> Bool", "over": "Session -> Bool",
        "granted": "Node -> Bool", "released": "Node -> Bool", "sent": "Node -> Bool", "lost": "Node -> Bool",
        "barrier": "Node -> Int", "wrong": "Node -> Bool",  # its delete has deleted the node of another contender
        "linked": "Session -> Bool", "at": "Session -> Server",  # where the session is, to the leader
        "late": "Node Server -> Bool",  # its delete, of a former connection
        "owes": "Session Server -> Bool",  # the outcome of a delete, as far as the client knows
    },
    begin=begin,
    steps={
        "create": ("Node", create), "grant": ("Node Node Int", grant), "lose the lease": ("Session", lose_lease),
        "renew the lease": ("Session", renew_lease), "expire": ("Session", expire), "release": ("Node", release),
        "arrive": ("Node", arrive), "arrive late": ("Node Server", arrive_late), "drop late": ("Node Server", drop_late),
        "cut": ("Session", cut), "dial": ("Session Server", dial), "link": ("Session Server", link),
        "forget": ("Session Server", forget), "ask": ("Node", ask), "again": ("Node Int", again),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), s.all("Node", lambda n: s.barrier(n) <= s.now)),
        "sessions": lambda s: And(s.all("Session", lambda e: Not(And(s.valid(e), s.over(e)))), s.all("Node", lambda n: Not(And(
            lives(s, n), over(s, n))))),
        "only a holder releases": lambda s: s.all("Node", lambda n: And(
            Implies(s.granted(n), s.born(n) > 0), Implies(s.released(n), s.granted(n)),
            Implies(Or(s.sent(n), s.lost(n)), s.released(n)), Implies(s.sent(n), And(s.linked(s.owner(n)), Not(s.lost(n)))),
            0 <= s.barrier(n), Implies(s.barrier(n) > 0, And(s.lost(n), s.linked(s.owner(n)))))),
        "what is late": lambda s: s.all("Node Server", lambda n, x: Implies(s.late(n, x), And(
            s.released(n), s.owes(s.owner(n), x), Implies(And(s.at(s.owner(n)) == x, Not(over(s, n))), And(
                Not(s.linked(s.owner(n))), lives(s, n), s.lost(n)))))),
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
            "create, grant, release, cut, link, ask, again, arrive, create, grant"),
        "a client goes elsewhere, and comes back after a minute": Shown(lambda s: s.some("Session", lambda e: And(
            s.linked(e), Not(s.owes(e, s.at(e))), s.some("Server", lambda x: s.owes(e, x)), s.some("Node", lambda n: And(
                s.owner(n) == e, s.barrier(n) > 0)))),
            "create, grant, release, cut, link, ask, again, drop late, forget, cut, link, ask"),
        "a delete that comes late": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.granted(n), lives(s, n), s.lost(m), Not(over(s, m)))),
            "create, grant, release, cut, arrive late, dial, create, grant"),
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
           "create, grant, release, arrive, cut, create, link, ask, again, arrive",
        faults=["the delete of the plain lock is repeated without a look at whose node is there"]),
    Weaker("the look is not behind a barrier", without(SYSTEM, "again", "the look is behind the barrier"), OTHERS,
           "create, grant, release, arrive, create, cut, link, again, arrive"),
    Weaker("a leader that takes late deletes of a session that is elsewhere", without(
        SYSTEM, "arrive late", "the session is there, to the leader"), OTHERS,
           "create, grant, release, cut, link, ask, again, arrive, create, arrive late"),
    Weaker("a server that owes a delete is dialed, and the client waits for no answer", without(
        SYSTEM, "dial", "the server owes nothing"), OTHERS,
           "create, grant, release, cut, link, ask, again, arrive, create, cut, dial, arrive late"),
    Weaker("the client comes back to a server that owes a delete", without(SYSTEM, "link", "the server owes nothing"), OTHERS,
           "create, grant, release, cut, link, ask, again, arrive, create, cut, link, arrive late",
        faults=["a server that owes the outcome of a write is dialed again"]),
    Weaker("what a server owes is forgotten before the delete was dropped", without(
        SYSTEM, "forget", "all was applied or dropped"), OTHERS,
           "create, grant, release, cut, link, ask, again, arrive, create, cut, forget, link, arrive late"),
    Weaker("when all servers owe, the client goes back (docs/safety.md: what remains)", weaker(SYSTEM, "link", needs={
        "the server owes nothing": lambda s, e, x: Or(Not(s.owes(e, x)), s.all("Server", lambda y: s.owes(e, y)))}), OTHERS,
           "create, grant, release, cut, link, ask, again, cut, arrive late, create, link, arrive late"),
    Weaker("a holder deletes the node in the next session", without(SYSTEM, "arrive", "it goes out in the session of the node"), OTHERS,
           "create, grant, lose the lease, expire, release, create, arrive"),
    Weaker("somebody deletes the node by hand (A4 excludes it)", with_step(SYSTEM, "by hand", "Node", delete_by_hand), OTHERS,
           "create, by hand, grant, create, release, arrive"),
]
