"""The queue: exclusion, order and tokens, for mutexes, writers and readers, with downgrade, and
with listings that tasks share.

Time is the number of writes. A server shows a prefix of the writes, which is a time, too. A session
never sees an earlier prefix than before.

A listing is one object, whoever made it: the nodes that a prefix has, without those that are known
to be gone since. A contender is granted the lock when a listing of its own session shows its node,
and nobody ahead. So a listing of its own, a listing of another task, the deletion of the last node
ahead and the wait behind few are one rule. `tests/model/tests/contract/` checks that the shipped
`rank`, `Turn` and `Listing` grant by no other, and `events` proves what a watch on our own node is
for.

A session ends no sooner than its lease, as `lease` proves. Then all its nodes go at once.

Not here: whether anybody is woken (`wakeups`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without
from nodes import lives, lose_lease, renew_lease, there, times


def ahead(s, other, node):
    """A reader stands just behind the writer whose number it has."""
    return Or(s.number(other) < s.number(node), And(s.number(other) == s.number(node), Not(s.reader(other)), s.reader(node)))


def conflict(s, one, other):
    return And(one != other, Not(And(s.reader(one), s.reader(other))))


def blocks(s, other, node):
    return And(ahead(s, other, node), conflict(s, other, node))


def came(s, node):
    """When its place in the queue was taken: a reader that was a writer has the place of that
    writer."""
    return s.born(s.was(node))


def begin(s):
    return And(s.now == 0, s.counter == 0,
               s.all("Node", lambda n: And(s.born(n) == 0, s.died(n) == 0, Not(s.granted(n)), s.at(n) == 0)),
               s.all("Listing", lambda l: And(Not(s.made(l)), s.view(l) == 0)),
               s.all("Session", lambda e: And(s.seen(e) == 0, s.valid(e), Not(s.over(e)))),
               s.all("Listing Node", lambda l, n: Not(s.shown(l, n))))


def create(s, node):
    return Rule({
        "the node is new": s.born(node) == 0,
        "its session lives": Not(s.over(s.owner(node))),
        "it is no reader that was a writer": s.was(node) == node,
        "the directory gives it the next number": s.number(node) == s.counter,
    }, {"now": s.now + 1, "counter": s.counter + 1, "born": put(s.born, node, s.now + 1)})


def delete(s, node):
    """By its contender, or by hand."""
    return Rule({"the node lives": lives(s, node)}, {"now": s.now + 1, "died": put(s.died, node, s.now + 1)})


def expire(s, session):
    return Rule({"its lease has ended": Not(s.valid(session)), "it lives": Not(s.over(session))}, {
        "now": s.now + 1, "over": put(s.over, session, True),
        "died": lambda n: If(And(s.owner(n) == session, lives(s, n)), s.now + 1, s.died(n))})


def new_directory(s):
    return Rule({"the directory is empty": s.all("Node", lambda n: Not(lives(s, n)))}, {"now": s.now + 1, "counter": 0})


def downgrade(s, writer, reader):
    """One transaction deletes the writer's node and creates the reader's."""
    return Rule({
        "the writer holds the lock": s.granted(writer),
        "the writer's node lives": lives(s, writer),
        "it is a writer": And(s.writer(writer), s.was(writer) == writer),
        "the reader's node is new": And(s.born(reader) == 0, s.reader(reader), s.was(reader) == writer),
        "the reader has the writer's number": s.number(reader) == s.number(writer),
        "both are of one session": s.owner(reader) == s.owner(writer),
    }, {
        "now": s.now + 1,
        "born": put(s.born, reader, s.now + 1),
        "died": put(s.died, writer, s.now + 1),
        "granted": put(s.granted, reader, True),
        "at": put(s.at, reader, s.now + 1),
    })


def hear(s, session, view):
    """Any other reply or event of the session."""
    return Rule({"no earlier prefix": s.seen(session) <= view, "no later than now": view <= s.now},
                {"seen": put(s.seen, session, view)})


def make_list(s, listing, view):
    session = s.lister(listing)
    return Rule({
        "the listing is new": Not(s.made(listing)),
        "no earlier prefix": s.seen(session) <= view,
        "no later than now": view <= s.now,
    }, {
        "made": put(s.made, listing, True),
        "view": put(s.view, listing, view),
        "seen": put(s.seen, session, view),
        "shown": lambda l, n: If(l == listing, there(s, n, view), s.shown(l, n)),
    })


def strike(s, listing, node, view):
    """A deletion was reported, or a look found no node. Both say that a prefix is without the node."""
    session = s.lister(listing)
    return Rule({
        "the listing shows the node": And(s.made(listing), s.shown(listing, node)),
        "the node is gone": Not(there(s, node, view)),
        "the session of the listing was told so": s.seen(session) <= view,
        "no later than now": view <= s.now,
    }, {"seen": put(s.seen, session, view), "shown": put(s.shown, listing, node, False)})


def grant(s, node, listing, at):
    told = s.seen(s.owner(node))
    was_ahead = lambda n: And(there(s, n, s.view(listing)), blocks(s, n, node))
    return Rule({
        "the listing was made": s.made(listing),
        "the listing shows our node": s.shown(listing, node),
        "our session has made the listing": s.lister(listing) == s.owner(node),
        "nobody ahead is shown": s.all("Node", lambda n: Not(And(s.shown(listing, n), blocks(s, n, node)))),
        "no writer was shown ahead, or we read": Or(s.reader(node), s.all("Node", lambda n: Not(And(was_ahead(n), s.writer(n))))),
        # Our node is watched, and events come in order. Or the listing is as it was made.
        "our own deletion would have been told": Or(
            And(at == told, there(s, node, told)),
            And(at == s.view(listing), s.all("Node", lambda n: Not(was_ahead(n))))),
        "it is not granted yet": Not(s.granted(node)),
        "the lease of our session is valid": s.valid(s.owner(node)),
    }, {"granted": put(s.granted, node, True), "at": put(s.at, node, at)})


SYSTEM = System(
    name="queue",
    sorts={"Node": 3, "Listing": 2, "Session": 2},
    fixed={
        "number": "Node -> Int", "reader": "Node -> Bool", "writer": "Node -> Bool", "was": "Node -> Node",
        "owner": "Node -> Session", "lister": "Listing -> Session",
    },
    variables={
        "now": "Int", "counter": "Int",
        "born": "Node -> Int", "died": "Node -> Int",  # 0: not yet
        "seen": "Session -> Int", "valid": "Session -> Bool", "over": "Session -> Bool",
        "made": "Listing -> Bool", "view": "Listing -> Int", "shown": "Listing Node -> Bool",
        "granted": "Node -> Bool", "at": "Node -> Int",  # the instant of the grant
    },
    facts={"a reader is no writer": lambda s: s.all("Node", lambda n: Not(And(s.reader(n), s.writer(n))))},
    begin=begin,
    steps={
        "create": ("Node", create), "delete": ("Node", delete), "new directory": ("", new_directory),
        "lose the lease": ("Session", lose_lease), "renew the lease": ("Session", renew_lease), "expire": ("Session", expire),
        "downgrade": ("Node Node", downgrade), "hear": ("Session Int", hear), "list": ("Listing Int", make_list),
        "strike": ("Listing Node Int", strike), "grant": ("Node Listing Int", grant),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), s.counter >= 0, s.all("Session", lambda e: And(
            0 <= s.seen(e), s.seen(e) <= s.now))),
        "sessions": lambda s: And(s.all("Session", lambda e: Not(And(s.valid(e), s.over(e)))), s.all("Node", lambda n: Not(And(
            lives(s, n), s.over(s.owner(n)))))),
        "writes have one order": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.born(n) > 0, s.born(n) == s.born(m)), n == m)),
        "who was a writer": lambda s: s.all("Node", lambda n: Implies(And(s.born(n) > 0, s.was(n) != n), And(
            s.reader(n), s.writer(s.was(n)), s.was(s.was(n)) == s.was(n), s.died(s.was(n)) == s.born(n), s.born(s.was(n)) > 0,
            s.number(s.was(n)) == s.number(n)))),
        "the counter is ahead": lambda s: s.all("Node", lambda n: Implies(lives(s, n), s.number(n) < s.counter)),
        "numbers go by arrival": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.born(n) > 0, s.born(m) > 0, came(s, m) < came(s, n), Or(s.died(m) == 0, came(s, n) < s.died(m))),
            s.number(m) < s.number(n))),
        "listings are of a session": lambda s: s.all("Listing", lambda l: Implies(s.made(l), And(
            0 <= s.view(l), s.view(l) <= s.seen(s.lister(l))))),
        "what is shown was there": lambda s: s.all("Listing Node", lambda l, n: Implies(
            And(s.made(l), s.shown(l, n)), there(s, n, s.view(l)))),
        "what is not shown is gone": lambda s: s.all("Listing Node", lambda l, n: Implies(
            And(s.made(l), there(s, n, s.view(l)), Not(s.shown(l, n))), And(s.died(n) > 0, s.died(n) <= s.seen(s.lister(l))))),
        "who is granted was born": lambda s: s.all("Node", lambda n: Implies(s.granted(n), And(s.born(n) > 0, s.at(n) <= s.now))),
        "a grant is true": lambda s: s.all("Node", lambda n: Implies(s.granted(n), there(s, n, s.at(n)))),
        "nobody was ahead": lambda s: s.all("Node Node", lambda n, m: Not(And(
            s.granted(n), blocks(s, m, n), there(s, m, s.at(n))))),
    },
    promises={
        "P1: no two holders": lambda s: s.all("Node Node", lambda n, m: Not(And(
            s.granted(n), s.granted(m), lives(s, n), lives(s, m), conflict(s, n, m)))),
        "P1: nobody is granted the lock while a node ahead is there": lambda s: s.all("Node Node", lambda n, m: Not(And(
            s.granted(n), lives(s, n), lives(s, m), blocks(s, m, n)))),
        "P6: at the instant of a grant our node was there, and nobody ahead": lambda s: s.all("Node Node", lambda n, m: Implies(
            s.granted(n), And(there(s, n, s.at(n)), Not(And(blocks(s, m, n), there(s, m, s.at(n))))))),
        "P7: first come, first served": lambda s: s.all("Node Node", lambda n, m: Not(And(
            s.granted(n), lives(s, n), lives(s, m), conflict(s, n, m), came(s, m) < came(s, n)))),
        "P5: tokens grow": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.granted(n), s.granted(m), conflict(s, n, m), s.at(n) < s.at(m), s.was(n) == n, s.was(m) == m),
            s.born(n) < s.born(m))),
    },
    lasting={
        "P2: who is granted the lock has its session": lambda s, t: t.all("Node", lambda n: Implies(
            And(t.granted(n), Not(s.granted(n))), Not(t.over(t.owner(n))))),
        # A writer that becomes a reader is the exception, which the rule for writers is for.
        "nobody comes in ahead": lambda s, t: t.all("Node Node", lambda n, m: Implies(
            And(lives(s, n), lives(t, n), lives(t, m), blocks(t, m, n)), Or(lives(s, m), lives(s, t.was(m))))),
    },
    reached={
        "a holder after another": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.granted(n), s.granted(m), n != m, lives(s, n), Not(lives(s, m)), Not(s.reader(n)), Not(s.reader(m)))),
            "create, create, list, grant, delete, strike, grant"),
        "two readers at once": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.granted(n), s.granted(m), lives(s, n), lives(s, m), s.was(n) == n, s.was(m) == m)),
            "create, create, list, list, grant, grant"),
        "a grant by a listing of another task": Shown(lambda s: s.some("Node Node Listing", lambda n, m, l: And(
            n != m, s.granted(n), s.granted(m), s.shown(l, n), s.at(n) > s.view(l), s.at(m) == s.view(l), Not(s.reader(m)))),
            "create, create, list, grant, delete, strike, grant"),
        "a reader that was a writer beside another reader": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.granted(n), s.granted(m), lives(s, n), lives(s, m), s.was(n) != n, s.was(m) == m)),
            "create, create, list, grant, downgrade, strike, grant"),
        "a holder in a new directory": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            n != m, s.granted(n), s.granted(m), s.number(n) == 0, s.number(m) == 0, s.was(n) == n, s.was(m) == m)),
            "create, list, grant, delete, new directory, create, list, grant"),
        "a holder after a session has ended": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.granted(n), s.granted(m), s.over(s.owner(m)), lives(s, n))),
            "create, create, list, list, grant, lose the lease, renew the lease, lose the lease, expire, hear, strike, grant"),
    },
    depth=11,
)

HOLDERS, AHEAD, TRUE, ORDER, SESSION = "P1: no two holders", "P1: nobody is granted the lock while a node ahead is there", \
    "P6: at the instant of a grant our node was there, and nobody ahead", "P7: first come, first served", \
    "P2: who is granted the lock has its session"


def granted_if(claim):
    """The queue, with another rule for who may be ahead."""
    return weaker(SYSTEM, "grant", needs={"nobody ahead is shown": lambda s, node, listing, at: claim(s, node, listing)})


def one_is_gone(s, node, listing):
    was_ahead = lambda n: And(there(s, n, s.view(listing)), blocks(s, n, node))
    nearest = lambda n: And(was_ahead(n), s.all("Node", lambda m: Not(And(was_ahead(m), ahead(s, n, m)))))
    return s.some("Node", lambda n: And(nearest(n), Not(s.shown(listing, n))))


def one_is_skipped(s, node, listing):
    return s.some("Node", lambda x: s.all("Node", lambda n: Or(n == x, Not(And(s.shown(listing, n), blocks(s, n, node))))))


def writers_do_not_count(s, node, listing):
    return s.all("Node", lambda n: Not(And(s.shown(listing, n), blocks(s, n, node), Not(And(s.reader(node), s.writer(n))))))


def readers_do_not_count(s, node, listing):
    return s.all("Node", lambda n: Not(And(s.shown(listing, n), blocks(s, n, node), Not(s.reader(n)))))


def order_by_text(s, node, listing):
    """The text before the number has any order: here the one against the numbers."""
    return s.all("Node", lambda n: Not(And(s.shown(listing, n), s.number(n) > s.number(node), conflict(s, n, node))))


WEAKER = [
    Weaker("a listing that does not show our node", without(SYSTEM, "grant", "the listing shows our node"), HOLDERS,
           "create, list, create, grant, grant",
           faults=["a listing proves something to a waiter that it does not show", "a waiter goes on without its node"]),
    Weaker("a listing of another session", without(SYSTEM, "grant", "our session has made the listing"), TRUE,
           "create, create, delete, hear, list, grant"),
    Weaker("only the nearest is gone", granted_if(one_is_gone), AHEAD, "create, create, create, list, delete, strike, grant",
           faults=["a waiter takes the deletion of the node ahead for the grant even if others are ahead"]),
    Weaker("one of those ahead is skipped", granted_if(one_is_skipped), HOLDERS, "create, create, list, grant, grant"),
    Weaker("readers do not wait for writers", granted_if(writers_do_not_count), HOLDERS, "create, create, list, grant, grant"),
    Weaker("writers do not wait for readers", granted_if(readers_do_not_count), HOLDERS, "create, create, list, grant, grant"),
    Weaker("the order of names in place of numbers", granted_if(order_by_text), AHEAD, "create, create, list, grant"),
    Weaker("nobody looks who is ahead", without(SYSTEM, "grant", "nobody ahead is shown"), AHEAD, "create, create, list, grant"),
    Weaker("a listing that showed a writer is kept", without(SYSTEM, "grant", "no writer was shown ahead, or we read"), HOLDERS,
           "create, create, list, grant, downgrade, strike, grant",
           faults=["a writer that waits takes a gone writer ahead for the last one",
                   "a listing proves something although a writer of it is gone"]),
    Weaker("our own node is not watched", without(SYSTEM, "grant", "our own deletion would have been told"), TRUE,
           "create, list, grant"),
    Weaker("the lease of our session has ended", without(SYSTEM, "grant", "the lease of our session is valid"), SESSION,
           "lose the lease, create, expire, list, grant",
           faults=["a waiter does not check its lease before the grant"]),
    Weaker("a session ends before its lease", without(SYSTEM, "expire", "its lease has ended"), SESSION,
           "create, expire, list, grant"),
    Weaker("a session that is over has a valid lease again", without(SYSTEM, "renew the lease", "the session lives"), SESSION,
           "lose the lease, create, expire, list, renew the lease, grant"),
    Weaker("changed data, or NO_AUTH, are taken for a deletion", without(SYSTEM, "strike", "the node is gone"), HOLDERS,
           "create, create, list, grant, strike, grant",
           faults=["a waiter takes any event on the node ahead for the grant",
                   "a changed node is taken out of the listing"]),
    Weaker("a look in another session", without(SYSTEM, "strike", "the session of the listing was told so"), HOLDERS,
           "create, create, list, grant, strike, hear, grant"),
    Weaker("a server shows an earlier listing than before", without(SYSTEM, "list", "no earlier prefix"), HOLDERS,
           "create, create, list, grant, list, strike, hear, grant"),
    Weaker("a server with earlier data takes the session over", without(SYSTEM, "hear", "no earlier prefix"), HOLDERS,
           "create, create, list, hear, strike, list, grant, grant"),
    Weaker("a writer that waits becomes a reader", without(SYSTEM, "downgrade", "the writer holds the lock"), AHEAD,
           "create, create, downgrade"),
    Weaker("the reader has another number than its writer", without(
        SYSTEM, "downgrade", "the reader has the writer's number"), HOLDERS,
           "create, create, list, grant, downgrade, list, grant"),
    Weaker("the writer's node is deleted before the reader's is made", without(
        SYSTEM, "downgrade", "the writer's node lives"), HOLDERS,
           "create, delete, create, list, list, grant, grant, downgrade"),
    Weaker("numbers begin anew in a directory with nodes", without(SYSTEM, "new directory", "the directory is empty"), ORDER,
           "create, new directory, create, list, grant"),
    Weaker("numbers without an order, as after the counter's end", without(
        SYSTEM, "create", "the directory gives it the next number"), ORDER, "create, create, list, grant"),
]
