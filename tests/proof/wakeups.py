"""No wake-up is lost: who waits has watches on its own node and on one ahead that is there, or an
event on its way; or it rests behind one of its client that does not rest.

Each contender has a connection. Its server applies the writes in their order, and fires the watch
on a node when it applies its deletion. A contender looks who is ahead, in a listing of its own or of
another task, watches one of them and its own node, and waits. An event makes it look again. Of the
contenders of one client only the first ones do so. The others rest, and are woken when one of these
waits no more.

From this follows that an attempt ends when those ahead have ended. Nobody comes in ahead
(`queue_lock`). When all ahead are gone, and the server of the contender has applied all writes, the
contender does not wait: it has a request or an event under way, and each answer leads it to its
turn. Who rests is behind one for which this holds.

A contender for the plain lock is a guest: it has no node while it waits. To ask is to try its
create, and the node that it waits for is the one that it found.

Not here: whose turn it is (`queue_lock`, `events`), that messages arrive, that steps do not go in
circles (the model explores that).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without
from nodes import lives, there, times

AWAY, ASKS, ARMS, WAITS, RESTS, HOLDS = range(6)


def asleep(s, node):
    """It waits, and nothing is on its way to it."""
    return And(s.linked(node), s.phase(node) == WAITS, Not(s.event(node)))


def is_active(s, node):
    """It waits, and does not rest."""
    return And(ASKS <= s.phase(node), s.phase(node) <= WAITS)


def asks(s, node):
    return {"it asks": And(s.linked(node), s.phase(node) == ASKS)}


def has_own(s, node, view):
    return Or(s.guest(node), there(s, node, view))


def woken(s, node, phase):
    """It waits no more. Whoever rests behind it looks what to do."""
    return lambda n: If(n == node, s.literal(phase), If(And(s.phase(n) == RESTS, s.target(n) == node), s.literal(ASKS), s.phase(n)))


def begin(s):
    return And(s.now == 0, s.all("Node", lambda n: And(
        s.born(n) == 0, s.died(n) == 0, s.phase(n) == AWAY, Not(s.event(n)), Not(s.linked(n)), Not(s.answered(n)), s.view(n) == 0)),
               s.all("Node Node", lambda n, m: Not(s.watch(n, m))))


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
    fires = lambda n, m: And(n == node, s.watch(n, m), Not(there(s, m, view)))
    return Rule({"it is linked": s.linked(node), "later": s.view(node) <= view, "not too late": view <= s.now}, {
        "view": put(s.view, node, view), "watch": lambda n, m: And(s.watch(n, m), Not(fires(n, m))),
        "event": put(s.event, node, Or(s.event(node), s.some("Node", lambda m: fires(node, m))))})


def change(s, node, other):
    """Somebody changes the data of a watched node."""
    return Rule({"its watch is set": s.watch(node, other)}, {
        "watch": put(s.watch, node, other, False), "event": put(s.event, node, True)})


def wait_for(s, node, other):
    """It asks for watches on this node and its own, and gives up the others."""
    return {"target": put(s.target, node, other), "phase": put(s.phase, node, ARMS),
            "watch": lambda n, m: And(s.watch(n, m), Or(n != node, m == other, m == node))}


def listed(s, node, other):
    return Rule(asks(s, node) | {
        "its own node is listed": has_own(s, node, s.view(node)),
        "the other one is listed": there(s, other, s.view(node)),
        "the other one is ahead": s.blocks(other, node),
    }, wait_for(s, node, other))


def shown(s, node, other):
    """The listing of another task shows it. It may be gone by now."""
    return Rule(asks(s, node) | {
        "the other one was there": s.born(other) > 0, "the other one is ahead": s.blocks(other, node)}, wait_for(s, node, other))


def rest(s, node, other):
    """Of the contenders of one client the first ones watch nodes. Whoever rested behind this one now rests behind the other."""
    behind = lambda n: Or(n == node, And(s.phase(n) == RESTS, s.target(n) == node))
    return Rule(asks(s, node) | {
        "the other one does not rest": is_active(s, other),
        "both are of one client": s.client(node) == s.client(other),
        "the other one is ahead": s.blocks(other, node),
    }, {"target": lambda n: If(behind(n), other, s.target(n)), "phase": put(s.phase, node, RESTS), "watch": lambda n, m: And(s.watch(n, m), n != node)})


def first(s, node):
    """By its own listing, or by what other tasks have learned."""
    return Rule(asks(s, node) | {
        "nobody ahead is left": s.all("Node", lambda m: Not(And(s.blocks(m, node), there(s, m, s.view(node))))),
    }, {"phase": woken(s, node, HOLDS), "watch": lambda n, m: And(s.watch(n, m), n != node)})


def leave(s, node):
    """It is dropped, or has learned that its node is gone."""
    return Rule({"it waits": Or(is_active(s, node), s.phase(node) == RESTS)}, {
        "phase": woken(s, node, AWAY), "linked": put(s.linked, node, False), "event": put(s.event, node, False),
        "answered": put(s.answered, node, False), "watch": lambda n, m: And(s.watch(n, m), n != node)})


def is_wanted(s, n, m):
    """It is to be watched by who waits."""
    return Or(m == s.target(n), And(m == n, Not(s.guest(n))))


def arm(s, node):
    """The request reaches the server, which looks for the nodes and sets the watches at once. An
    event says which node is not there."""
    is_missing = lambda m: And(is_wanted(s, node, m), Not(there(s, m, s.view(node))))
    return Rule({"it sets a watch": And(s.linked(node), s.phase(node) == ARMS, Not(s.answered(node)))}, {
        "watch": lambda n, m: Or(s.watch(n, m), And(n == node, is_wanted(s, n, m), there(s, m, s.view(node)))),
        "answered": put(s.answered, node, True),
        "event": put(s.event, node, Or(s.event(node), s.some("Node", is_missing)))})


def armed(s, node):
    """The reply arrives. Events that came before were kept back until now."""
    return Rule({"the reply is on its way": And(s.linked(node), s.phase(node) == ARMS, s.answered(node))}, {
        "answered": put(s.answered, node, False), "phase": put(s.phase, node, WAITS)})


def wake(s, node):
    """An event arrives."""
    return Rule({"an event is on its way": And(s.linked(node), s.phase(node) == WAITS, s.event(node))}, {
        "event": put(s.event, node, False), "phase": put(s.phase, node, ASKS)})


def cut(s, node):
    """Watches, events, requests and replies of the connection are lost."""
    return Rule({"it is linked": s.linked(node)}, {
        "linked": put(s.linked, node, False), "watch": lambda n, m: And(s.watch(n, m), n != node),
        "event": put(s.event, node, False), "answered": put(s.answered, node, False),
        "phase": put(s.phase, node, If(s.phase(node) == ARMS, WAITS, s.phase(node)))})


def link(s, node, view):
    """Another connection, to any server. The first request on it sets the watches again, and the
    server compares."""
    restored = lambda m: And(s.phase(node) == WAITS, is_wanted(s, node, m))
    return Rule({"it is cut off": And(Not(s.linked(node)), s.phase(node) != AWAY), "some prefix": And(0 <= view, view <= s.now)}, {
        "linked": put(s.linked, node, True), "view": put(s.view, node, view),
        "watch": lambda n, m: Or(s.watch(n, m), And(n == node, restored(m), there(s, m, view))),
        "event": put(s.event, node, s.some("Node", lambda m: And(restored(m), Not(there(s, m, view)))))})


SYSTEM = System(
    name="wake-ups",
    sorts={"Node": 3, "Client": 2},
    fixed={"number": "Node -> Int", "blocks": "Node Node -> Bool", "guest": "Node -> Bool", "client": "Node -> Client"},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int",
        "phase": "Node -> Int", "target": "Node -> Node", "linked": "Node -> Bool",
        "view": "Node -> Int",  # of its server
        "watch": "Node Node -> Bool", "answered": "Node -> Bool", "event": "Node -> Bool",
    },
    facts={
        "who blocks has a node, and a lower number": lambda s: s.all("Node Node", lambda n, m: Implies(
            s.blocks(m, n), And(Not(s.guest(m)), s.number(m) < s.number(n)))),
        "the mutexes of a client have one order": lambda s: s.all("Node Node Node", lambda n, m, l: Implies(
            And(s.blocks(l, m), s.blocks(m, n), s.client(l) == s.client(m), s.client(m) == s.client(n)), s.blocks(l, n))),
    },
    begin=begin,
    steps={
        "enter": ("Node", enter), "visit": ("Node Int", visit), "delete": ("Node", delete), "apply": ("Node Int", apply),
        "change": ("Node Node", change), "listed": ("Node Node", listed), "shown": ("Node Node", shown), "rest": ("Node Node", rest),
        "first": ("Node", first), "leave": ("Node", leave), "arm": ("Node", arm), "armed": ("Node", armed), "wake": ("Node", wake),
        "cut": ("Node", cut), "link": ("Node Int", link),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), s.all("Node", lambda n: s.view(n) <= s.now)),
        "phases": lambda s: s.all("Node", lambda n: And(
            AWAY <= s.phase(n), s.phase(n) <= HOLDS, Implies(Or(s.event(n), s.answered(n)), s.linked(n)),
            Implies(s.answered(n), s.phase(n) == ARMS),
            Implies(s.phase(n) == AWAY, Not(s.linked(n))), Implies(And(s.born(n) == 0, Not(s.guest(n))), s.phase(n) == AWAY))),
        "the target is ahead": lambda s: s.all("Node", lambda n: Implies(
            And(ARMS <= s.phase(n), s.phase(n) <= RESTS), s.blocks(s.target(n), n))),
        "who rests is behind one that does not": lambda s: s.all("Node", lambda n: Implies(
            s.phase(n) == RESTS, And(is_active(s, s.target(n)), s.client(s.target(n)) == s.client(n)))),
        "a watch is on a node that is there": lambda s: s.all("Node Node", lambda n, m: Implies(
            s.watch(n, m), And(s.linked(n), there(s, m, s.view(n))))),
        "who waits has watches, or an event": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.linked(n), Or(s.phase(n) == WAITS, s.answered(n)), Not(s.event(n)), is_wanted(s, n, m)), s.watch(n, m))),
    },
    promises={
        "P8: who sleeps watches its own node and one ahead, which are there": lambda s: s.all("Node", lambda n: Implies(
            asleep(s, n), And(s.watch(n, s.target(n)), there(s, s.target(n), s.view(n)), s.blocks(s.target(n), n),
                              Or(s.guest(n), And(s.watch(n, n), there(s, n, s.view(n))))))),
        "P8: nobody sleeps when all ahead are gone, or its own node": lambda s: s.all("Node", lambda n: Implies(
            And(asleep(s, n), s.view(n) == s.now), And(lives(s, s.target(n)), s.blocks(s.target(n), n), Or(s.guest(n), lives(s, n))))),
        "P8: who rests is behind one of its client that does not": lambda s: s.all("Node", lambda n: Implies(
            s.phase(n) == RESTS, And(is_active(s, s.target(n)), s.blocks(s.target(n), n), s.client(n) == s.client(s.target(n))))),
    },
    reached={
        "somebody sleeps, and holds later": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.phase(n) == HOLDS, s.phase(m) == HOLDS, s.blocks(m, n), Not(lives(s, m)), Not(s.guest(n)))),
            "enter, first, enter, listed, arm, armed, change, wake, listed, arm, armed, delete, apply, wake, first"),
        "an event is ahead of the reply": Shown(lambda s: s.some("Node", lambda n: And(s.event(n), s.answered(n))),
                                                "enter, enter, shown, arm, delete, apply"),
        "an event that a cut lost is made up for": Shown(lambda s: s.some("Node", lambda n: And(s.event(n), s.view(n) == s.now)),
                                                         "enter, first, enter, listed, arm, armed, delete, cut, link"),
        "who rests holds after those ahead": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            s.phase(n) == HOLDS, s.phase(m) == HOLDS, s.blocks(m, n))), "enter, enter, rest, first, delete, apply, first"),
        "who rests goes on when the one ahead has left": Shown(lambda s: s.some("Node Node", lambda n, m: And(
            asleep(s, n), s.blocks(m, n), s.phase(m) == AWAY, s.born(m) > 0, s.target(n) != m)),
            "enter, enter, enter, shown, arm, armed, rest, leave, shown, arm, armed"),
        "a guest gets what it waited for": Shown(lambda s: s.some("Node", lambda n: And(s.guest(n), s.phase(n) == HOLDS)),
                                                 "enter, first, visit, listed, arm, armed, delete, apply, wake, first"),
    },
    depth=9,
)

SLEEP, GONE, REST = SYSTEM.promises


def changed(step, **changes):
    """The system in which a step changes something else at its node."""
    value = lambda name, change: lambda s, node, *more: put(getattr(s, name), node, change(s, node, *more))
    return weaker(SYSTEM, step, changes={name: value(name, change) for name, change in changes.items()})


def watches(step, claim):
    """The system in which a step leaves the watches for which this holds."""
    return weaker(SYSTEM, step, changes={"watch": lambda s, node, *more: lambda n, m: If(
        n == node, claim(s, n, m, *more), s.watch(n, m))})


def of_target(s, node, m, view):
    return And(m == s.target(node), s.phase(node) == WAITS, there(s, m, view))


WEAKER = [
    Weaker("watches are set without a look", weaker(watches("arm", is_wanted), "arm", changes={
        "event": lambda s, node: s.event}), GONE, "enter, delete, enter, shown, arm, armed",
        faults=["the model misses lost events: the server does not tell that a node to watch is gone"]),
    Weaker("a waiter does not watch its own node", watches("arm", lambda s, n, m: And(m == s.target(n), there(s, m, s.view(n)))), SLEEP,
           "enter, enter, listed, arm, armed"),
    Weaker("a waiter gives up the watch on its own node", weaker(SYSTEM, "armed", changes={
        "watch": lambda s, node: lambda n, m: And(s.watch(n, m), m != node)}), SLEEP, "enter, enter, listed, arm, armed"),
    Weaker("a waiter goes on waiting after an event", changed("wake", phase=lambda s, n: WAITS), SLEEP,
           "enter, enter, listed, arm, armed, change, wake",
           faults=["a contender for the plain lock waits for a node of its own"]),
    Weaker("an event before the reply is dropped", changed("armed", event=lambda s, n: False), SLEEP,
           "enter, visit, shown, arm, change, armed"),
    Weaker("a waiter waits without a watch", changed("listed", phase=lambda s, n, m: WAITS), SLEEP, "enter, visit, listed"),
    Weaker("a waiter that another one's listing shows waits without a watch", changed("shown", phase=lambda s, n, m: WAITS), SLEEP,
           "visit, enter, shown"),
    Weaker("watches are not restored after a reconnect", weaker(changed("link", event=lambda s, n, v: False), "link", changes={
        "watch": lambda s, n, v: s.watch}), SLEEP, "enter, enter, shown, arm, armed, cut, link",
        faults=["the model misses lost events: a watch is not set again on the next connection"]),
    Weaker("only the watch on the node ahead is restored", watches("link", of_target), SLEEP,
           "enter, enter, shown, arm, armed, cut, link"),
    Weaker("watches are restored without a comparison", weaker(watches("link", lambda s, n, m, v: is_wanted(s, n, m)), "link", changes={
        "event": lambda s, n, v: s.event}), GONE, "enter, visit, shown, arm, armed, delete, cut, link"),
    Weaker("the event of a deletion is lost", changed("apply", event=lambda s, n, v: s.event(n)), SLEEP,
           "enter, enter, shown, arm, armed, delete, apply"),
    Weaker("a waiter waits for a node behind", without(SYSTEM, "listed", "the other one is ahead"), SLEEP,
           "enter, listed, arm, armed"),
    Weaker("a waiter waits for one behind that a listing shows", without(SYSTEM, "shown", "the other one is ahead"), SLEEP,
           "enter, shown, arm, armed"),
    Weaker("a waiter rests behind one that rests or holds", without(SYSTEM, "rest", "the other one does not rest"), REST,
           "enter, first, enter, rest"),
    Weaker("a waiter rests behind one of another client", without(SYSTEM, "rest", "both are of one client"), REST,
           "enter, enter, rest"),
    Weaker("a waiter rests ahead of who asks", without(SYSTEM, "rest", "the other one is ahead"), REST, "enter, enter, rest"),
    Weaker("who rests does not move on when the one ahead rests, too", weaker(SYSTEM, "rest", changes={
        "target": lambda s, n, m: put(s.target, n, m)}), REST, "enter, enter, enter, rest, rest"),
    Weaker("a grant wakes nobody", changed("first", phase=lambda s, n: HOLDS), REST, "enter, enter, rest, first"),
    Weaker("who leaves wakes nobody", changed("leave", phase=lambda s, n: AWAY), REST, "enter, enter, rest, leave"),
]
