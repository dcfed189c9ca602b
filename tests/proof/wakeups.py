"""No wake-up is lost: who waits has a watch on a node ahead that is there, or an event on its way.

Each contender has a connection. Its server applies the writes in their order, and fires the watch
on a node when it applies its deletion. A contender asks who is ahead, sets a watch on one of them,
and waits. Or it waits for a contender of its own client, which it knows without asking. An event
makes it ask again.

From this follows that an attempt ends when those ahead have ended. Nobody comes in ahead
(`queue_lock`). When all ahead are gone, and the server of the contender has applied all writes, the
contender does not wait: it has a request or an event under way, and each answer leads it to its
turn.

A contender for the plain lock is a guest: it has no node while it waits. To ask is to try its
create, and the node that it waits for is the one that it found.

Not here: whose turn it is (`queue_lock`), that messages arrive, that steps do not go in circles
(the model explores that).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without
from nodes import lives, there, times

AWAY, ASKS, ARMS, WAITS, HOLDS = range(5)


def asleep(s, node):
    """It waits, and nothing is on its way to it."""
    return And(s.linked(node), s.phase(node) == WAITS, Not(s.event(node)))


def begin(s):
    return And(s.now == 0, s.all("Node", lambda n: And(
        s.born(n) == 0, s.died(n) == 0, s.phase(n) == AWAY, Not(s.watch(n)), Not(s.event(n)), Not(s.linked(n)),
        Not(s.answered(n)), s.view(n) == 0)))


def enter(s, node):
    """The reply to its create shows that its server has applied it."""
    return Rule({"the node is new": s.born(node) == 0, "it has a node": Not(s.guest(node))}, {
        "now": s.now + 1, "born": put(s.born, node, s.now + 1), "view": put(s.view, node, s.now + 1),
        "phase": put(s.phase, node, ASKS), "linked": put(s.linked, node, True)})


def visit(s, node, view):
    """A contender for the plain lock begins."""
    return Rule({"it begins": And(s.guest(node), s.phase(node) == AWAY), "some prefix": And(0 <= view, view <= s.now)}, {
        "view": put(s.view, node, view), "phase": put(s.phase, node, ASKS), "linked": put(s.linked, node, True)})


def delete(s, node):
    return Rule({"the node lives": lives(s, node)}, {"now": s.now + 1, "died": put(s.died, node, s.now + 1)})


def apply(s, node, view):
    fires = And(s.watch(node), Not(there(s, s.target(node), view)))
    return Rule({"it is linked": s.linked(node), "later": s.view(node) <= view, "not too late": view <= s.now}, {
        "view": put(s.view, node, view),
        "watch": put(s.watch, node, And(s.watch(node), Not(fires))),
        "event": put(s.event, node, Or(s.event(node), fires))})


def change(s, node):
    """Somebody changes the data of the watched node."""
    return Rule({"its watch is set": s.watch(node)}, {"watch": put(s.watch, node, False), "event": put(s.event, node, True)})


def listed(s, node, other):
    return Rule({
        "it asks": And(s.linked(node), s.phase(node) == ASKS),
        "the other one is listed": there(s, other, s.view(node)),
        "the other one is ahead": s.blocks(other, node),
    }, {"target": put(s.target, node, other), "phase": put(s.phase, node, ARMS)})


def follow(s, node, other):
    """The other one is known to its client. It may be gone by now."""
    return Rule({
        "it asks": And(s.linked(node), s.phase(node) == ASKS),
        "the other one was there": s.born(other) > 0,
        "the other one is ahead": s.blocks(other, node),
    }, {"target": put(s.target, node, other), "phase": put(s.phase, node, ARMS)})


def first(s, node):
    return Rule({
        "it asks": And(s.linked(node), s.phase(node) == ASKS),
        "nobody ahead is listed": s.all("Node", lambda m: Not(And(s.blocks(m, node), there(s, m, s.view(node))))),
    }, {"phase": put(s.phase, node, HOLDS)})


def arm(s, node):
    """The request reaches the server, which looks for the node and sets the watch at once. Without
    the node it says so."""
    is_there = there(s, s.target(node), s.view(node))
    return Rule({"it sets a watch": And(s.linked(node), s.phase(node) == ARMS, Not(s.answered(node)))}, {
        "watch": put(s.watch, node, is_there),
        "answered": put(s.answered, node, is_there),
        "phase": put(s.phase, node, If(is_there, s.phase(node), ASKS))})


def armed(s, node):
    """The reply arrives."""
    return Rule({"the reply is on its way": And(s.linked(node), s.phase(node) == ARMS, s.answered(node))}, {
        "answered": put(s.answered, node, False), "phase": put(s.phase, node, WAITS)})


def wake(s, node):
    """An event arrives. Another task of the client may have watched the node already, so it may
    come before the reply."""
    return Rule({"an event is on its way": And(s.linked(node), s.event(node))}, {
        "event": put(s.event, node, False), "answered": put(s.answered, node, False), "phase": put(s.phase, node, ASKS)})


def cut(s, node):
    """Watches, events, requests and replies of the connection are lost."""
    return Rule({"it is linked": s.linked(node)}, {
        "linked": put(s.linked, node, False), "watch": put(s.watch, node, False), "event": put(s.event, node, False),
        "answered": put(s.answered, node, False),
        "phase": put(s.phase, node, If(s.phase(node) == ARMS, ASKS, s.phase(node)))})


def link(s, node, view):
    """Another connection, to any server. The first request on it sets the watch again, and the
    server compares."""
    waits = s.phase(node) == WAITS
    is_there = there(s, s.target(node), view)
    return Rule({"it is cut off": And(Not(s.linked(node)), s.phase(node) != AWAY), "some prefix": And(0 <= view, view <= s.now)}, {
        "linked": put(s.linked, node, True), "view": put(s.view, node, view),
        "watch": put(s.watch, node, And(waits, is_there)), "event": put(s.event, node, And(waits, Not(is_there)))})


SYSTEM = System(
    name="wake-ups",
    sorts={"Node": 2},
    fixed={"number": "Node -> Int", "blocks": "Node Node -> Bool", "guest": "Node -> Bool"},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int",
        "phase": "Node -> Int", "target": "Node -> Node", "linked": "Node -> Bool",
        "view": "Node -> Int",  # of its server
        "watch": "Node -> Bool", "answered": "Node -> Bool", "event": "Node -> Bool",
    },
    facts={"who blocks has a node, and a lower number": lambda s: s.all("Node Node", lambda n, m: Implies(
        s.blocks(m, n), And(Not(s.guest(m)), s.number(m) < s.number(n))))},
    begin=begin,
    steps={
        "enter": ("Node", enter), "visit": ("Node Int", visit), "delete": ("Node", delete), "apply": ("Node Int", apply),
        "change": ("Node", change),
        "listed": ("Node Node", listed), "follow": ("Node Node", follow), "first": ("Node", first), "arm": ("Node", arm),
        "armed": ("Node", armed), "wake": ("Node", wake), "cut": ("Node", cut), "link": ("Node Int", link),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), s.all("Node", lambda n: s.view(n) <= s.now)),
        "phases": lambda s: s.all("Node", lambda n: And(AWAY <= s.phase(n), s.phase(n) <= HOLDS, Implies(
            Or(s.watch(n), s.event(n), s.answered(n)), s.linked(n)), Implies(s.answered(n), s.phase(n) == ARMS), Implies(
                And(s.born(n) == 0, Not(s.guest(n))), And(s.phase(n) == AWAY, Not(s.linked(n)))), Not(And(s.watch(n), s.event(n))))),
        "the target is ahead": lambda s: s.all("Node", lambda n: Implies(
            Or(s.phase(n) == ARMS, s.phase(n) == WAITS), s.blocks(s.target(n), n))),
        "a watch is on a node that is there": lambda s: s.all("Node", lambda n: Implies(
            s.watch(n), there(s, s.target(n), s.view(n)))),
        "a watch has a contender": lambda s: s.all("Node", lambda n: Implies(
            Or(s.watch(n), s.event(n)), Or(s.phase(n) == WAITS, s.answered(n)))),
        "who has a reply has a watch": lambda s: s.all("Node", lambda n: Implies(s.answered(n), Or(s.watch(n), s.event(n)))),
        "who sleeps has a watch": lambda s: s.all("Node", lambda n: Implies(asleep(s, n), s.watch(n))),
    },
    promises={
        "P8: who sleeps watches a node ahead that is there": lambda s: s.all("Node", lambda n: Implies(asleep(s, n), And(
            s.watch(n), there(s, s.target(n), s.view(n)), s.blocks(s.target(n), n)))),
        "P8: nobody sleeps when all ahead are gone": lambda s: s.all("Node", lambda n: Implies(
            And(asleep(s, n), s.view(n) == s.now), And(lives(s, s.target(n)), s.blocks(s.target(n), n)))),
    },
    reached={
        "somebody sleeps, and holds later": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.phase(n) == HOLDS, s.phase(m) == HOLDS, s.blocks(m, n), Not(lives(s, m)), Not(s.guest(n)))),
            "enter, first, enter, listed, arm, armed, change, wake, listed, arm, armed, delete, apply, wake, first"),
        "an event is ahead of the reply": Shown(lambda s: s.some("Node", lambda n: And(s.event(n), s.answered(n))),
                                                "enter, enter, follow, arm, delete, apply"),
        "an event that a cut lost is made up for": Shown(lambda s: s.some("Node", lambda n: And(s.event(n), s.view(n) == s.now)),
                                                         "enter, first, enter, listed, arm, armed, delete, cut, link"),
        "a guest gets what it waited for": Shown(lambda s: s.some("Node", lambda n: And(s.guest(n), s.phase(n) == HOLDS)),
                                                 "enter, first, visit, listed, arm, armed, delete, apply, wake, first"),
    },
    depth=9,
)

SLEEP, GONE = SYSTEM.promises


def changed(step, **changes):
    """The system in which a step changes something else at its node."""
    value = lambda name, change: lambda s, node, *more: put(getattr(s, name), node, change(s, node, *more))
    return weaker(SYSTEM, step, changes={name: value(name, change) for name, change in changes.items()})


WEAKER = [
    Weaker("a watch is set without a look", changed(
        "arm", watch=lambda s, n: True, answered=lambda s, n: True, phase=lambda s, n: ARMS), GONE,
           "enter, delete, enter, follow, arm, armed",
        faults=["the model misses lost events: the server does not tell that a node to watch is gone"]),
    Weaker("a waiter goes on waiting after an event", changed("wake", phase=lambda s, n: WAITS), SLEEP,
           "enter, enter, listed, arm, change, wake",
           faults=["a contender for the plain lock waits for a node of its own"]),
    Weaker("an event before the reply is dropped", changed(
        "wake", phase=lambda s, n: If(s.answered(n), s.phase(n), ASKS), answered=lambda s, n: s.answered(n)), SLEEP,
           "enter, visit, follow, arm, change, wake, armed"),
    Weaker("a waiter waits without a watch", changed("listed", phase=lambda s, n, m: WAITS), SLEEP, "enter, visit, listed"),
    Weaker("a waiter that follows another one waits without a watch", changed("follow", phase=lambda s, n, m: WAITS), SLEEP,
           "visit, enter, follow"),
    Weaker("watches are not restored after a reconnect", changed(
        "link", watch=lambda s, n, v: False, event=lambda s, n, v: False), SLEEP, "enter, enter, follow, arm, armed, cut, link",
        faults=["the model misses lost events: a watch is not set again on the next connection"]),
    Weaker("watches are restored without a comparison", changed(
        "link", watch=lambda s, n, v: s.phase(n) == WAITS, event=lambda s, n, v: False), GONE,
           "enter, visit, follow, arm, armed, delete, cut, link"),
    Weaker("the event of a deletion is lost", changed("apply", event=lambda s, n, v: s.event(n)), SLEEP,
           "enter, enter, follow, arm, armed, delete, apply"),
    Weaker("a waiter waits for a node behind", without(SYSTEM, "listed", "the other one is ahead"), SLEEP,
           "enter, listed, arm, armed"),
    Weaker("a waiter follows a contender behind", without(SYSTEM, "follow", "the other one is ahead"), SLEEP,
           "enter, follow, arm, armed"),
]
