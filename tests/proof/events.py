"""The grant by an event: at the instant that it tells of, our node was there, and nobody was ahead.

One contender, whose node and all nodes ahead were there at the beginning. Later ones are behind it
(`queue_lock`). It watches its own node and the nearest one. What is told on one connection comes in
the order of writes: events, and replies that show what came after. Events that make up for an
outage come in any order, but ahead of all replies of that connection. Other tasks of the client may
list the queue, too.

`recipes/src/queue/turn.rs` has the rules. Here is why each is needed. What they give is the
condition "our own deletion would have been told" of `queue_lock`.

Not here: whether somebody is woken (`wakeups`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without

ENTERS, UNKNOWN, MANY, LAST, LEFT, FIRST = range(6)  # the place: nothing is known; somebody is ahead; the nearest one has left

WATCHES = "watch", "lost", "due"  # set on this connection; lost with the former one; fired while there was none


def lives_at(s, node, view):
    return Or(s.died(node) == 0, s.died(node) > view)


def is_told(s, view):
    """All events up to this prefix have come."""
    return s.all("Node", lambda n: Implies(s.watch(n), lives_at(s, n, view)))


def nothing_due(s):
    return s.all("Node", lambda n: Not(Or(s.lost(n), s.due(n))))


def replied(s, view):
    """What holds of each reply that shows this prefix."""
    return {"no earlier prefix": And(s.seen <= view, view <= s.now), "older events come before": is_told(s, view),
            "what makes up for an outage comes before": nothing_due(s)}


def begin(s):
    return And(
        s.now == 1, s.seen == 1, s.conn == 1, s.asked == 1, s.place == ENTERS, s.listed == 0, s.request == 0, s.reply == 0,
        s.came == 0, Not(s.asking), Not(s.mine), Not(s.arms_own), Not(s.arms_target), Not(s.gone), Not(s.shows_own),
        s.all("Node", lambda n: And(
            s.died(n) == 0, Not(s.watch(n)), Not(s.lost(n)), Not(s.due(n)), Implies(s.shown(n), s.ahead(n)))))


def delete(s, node):
    return Rule({"the node lives": s.died(node) == 0}, {"now": s.now + 1, "died": put(s.died, node, s.now + 1)})


def ask(s):
    """For a listing. Another request for our own watch goes ahead of it."""
    return Rule({"it has to ask": And(s.place != LAST, s.place != FIRST), "once": And(Not(s.asking), s.reply == 0)}, {
        "place": UNKNOWN, "asked": s.conn, "asking": True})


def wait_for(s, place, target):
    """Waits for this node. Asks for the watches that are missing, and gives up those that are of no
    use."""
    return {"place": place, "target": target, "mine": True, "arms_own": Or(s.arms_own, Not(s.mine)),
            "arms_target": Not(Or(s.watch(target), s.lost(target), s.due(target)))} | {
        name: lambda n, set=getattr(s, name): And(set(n), Or(n == s.own, n == target)) for name in WATCHES}


def answer(s, view):
    return Rule(replied(s, view) | {"it has asked": And(s.asking, Not(s.arms_own), Not(s.arms_target))}, {
        "asking": False, "reply": view, "seen": view})


def choose(condition, one, other):
    return (lambda n: If(condition, one(n), other(n))) if callable(one) else If(condition, one, other)


def listed(s, target):
    """The contender reads the reply, perhaps on a later connection."""
    is_ahead = lambda n: And(s.ahead(n), lives_at(s, n, s.reply))
    nobody = s.all("Node", lambda n: Not(is_ahead(n)))
    is_last = s.all("Node", lambda n: Implies(is_ahead(n), n == target))
    waits = wait_for(s, If(is_last, s.literal(LAST), s.literal(MANY)), target)
    return Rule({"it is answered": s.reply > 0, "one of those ahead": Or(nobody, is_ahead(target))}, {
        name: choose(nobody, getattr(s, name), value) for name, value in waits.items()} | {
        "place": If(nobody, s.literal(FIRST), waits["place"]), "at": s.reply, "reply": 0,
        "gone": Or(s.gone, Not(lives_at(s, s.own, s.reply)))})


def follow(s, target):
    """Another task of the client has a node ahead."""
    return Rule({"it has to ask": Or(s.place == ENTERS, s.place == LEFT), "one of those ahead": s.ahead(target)},
                wait_for(s, MANY, target))


def heard(s, node, at):
    """The deletion of a node is told."""
    is_target = And(node == s.target, Or(s.place == LAST, s.place == MANY))
    is_proof = And(s.place == LAST, s.asked == s.conn)
    return {
        "gone": Or(s.gone, node == s.own),
        "place": If(And(is_target, is_proof), FIRST, If(And(is_target, s.place == MANY), LEFT, If(is_target, UNKNOWN, s.place))),
        "at": If(And(is_target, is_proof), at, s.at),
        "shown": put(s.shown, node, False)}


def armed(s, view):
    """The reply to the request for watches. What is gone is told at once."""
    own, target = And(s.arms_own, Not(lives_at(s, s.own, view))), And(s.arms_target, Not(lives_at(s, s.target, view)))
    is_armed = lambda n: Or(And(n == s.own, s.arms_own), And(n == s.target, s.arms_target))
    told = heard(s, s.target, view)
    return Rule(replied(s, view) | {"it has asked for watches": Or(s.arms_own, s.arms_target)}, {
        "seen": view, "arms_own": False, "arms_target": False, "gone": Or(s.gone, own),
        "place": If(target, told["place"], s.place), "at": If(target, told["at"], s.at),
        "shown": lambda n: If(target, told["shown"](n), s.shown(n)),
        "watch": lambda n: Or(s.watch(n), And(lives_at(s, n, view), is_armed(n)))})


def comes(s, node):
    """When the event of a deletion may come."""
    return {"older events come before": s.all("Node", lambda n: Implies(s.watch(n), lives_at(s, n, s.died(node) - 1))),
            "what makes up for an outage comes before": nothing_due(s)}


def event(s, node):
    return Rule(comes(s, node) | {"the node is watched": And(s.watch(node), s.died(node) > 0)}, heard(s, node, s.died(node)) | {
        "watch": put(s.watch, node, False), "seen": If(s.seen < s.died(node), s.died(node), s.seen)})


def make_up(s, node):
    """For an outage."""
    return Rule({"the event is due": s.due(node)}, heard(s, node, s.seen) | {"due": put(s.due, node, False)})


def change(s, node):
    """Somebody changes the data of a watched node. If it is ours, it is watched again first."""
    is_own = node == s.own
    return Rule({"the node is watched": And(s.watch(node), s.died(node) == 0)}, {
        "watch": put(s.watch, node, False),
        "arms_own": Or(s.arms_own, is_own),
        # It reads a reply before it hears of this. So that is forgotten.
        "asking": And(s.asking, Not(is_own)), "reply": If(is_own, 0, s.reply),
        "place": If(Or(is_own, And(node == s.target, s.place != FIRST)), UNKNOWN, s.place)})


def link(s):
    """The next connection. Requests and replies are lost."""
    wanted = lambda n: Or(s.watch(n), s.lost(n), s.due(n), And(n == s.own, s.arms_own), And(n == s.target, s.arms_target))
    return Rule({}, {
        "conn": s.conn + 1, "asking": False, "arms_own": False, "arms_target": False, "request": If(s.came > 0, s.request, 0),
        "watch": lambda n: False, "lost": wanted, "due": lambda n: False})


def restore(s, view):
    """The first request on it sets all watches again. The server compares."""
    return Rule({"no earlier prefix": And(s.seen <= view, view <= s.now), "older events come before": is_told(s, view)}, {
        "seen": view, "lost": lambda n: False, "watch": lambda n: Or(s.watch(n), And(s.lost(n), lives_at(s, n, view))),
        "due": lambda n: Or(s.due(n), And(s.lost(n), Not(lives_at(s, n, view))))})


def another_asks(s):
    return Rule({}, {"request": s.conn, "came": 0})


def another_answered(s, view):
    return Rule(replied(s, view) | {"it has asked": And(s.request == s.conn, s.came == 0)}, {"seen": view, "came": view})


def another_listed(s):
    """The other task reads the reply, perhaps on a later connection."""
    return Rule({"it is answered": s.came > 0}, {
        "listed": s.request, "request": 0, "came": 0, "shows_own": lives_at(s, s.own, s.came),
        "shown": lambda n: And(s.ahead(n), lives_at(s, n, s.came))})


def another_hears(s, node):
    """Another task of the client is told of a deletion. That one has no watch on our node."""
    return Rule({
        "the node is gone": s.died(node) > 0,
        "it comes in order": Or(s.died(node) <= s.seen, And(Not(s.watch(node)), *comes(s, node).values())),
    }, {"shown": put(s.shown, node, False), "seen": If(s.seen < s.died(node), s.died(node), s.seen)})


def may_use(s):
    """The nearest one has left, and what makes up for an outage has come."""
    return {"the nearest one has left": s.place == LEFT, "the listing shows our node": s.shows_own,
            "all events of the connection have come": Or(s.asked == s.conn, s.listed == s.conn)}


def use(s):
    """The listing of another task shows nobody ahead any more."""
    return Rule(may_use(s) | {"nobody ahead is shown": s.all("Node", lambda n: Not(s.shown(n)))}, {"place": FIRST, "at": s.seen})


def look(s, node, view):
    """The reply to a look shows that a node is gone."""
    return Rule(replied(s, view) | {"the node is gone": Not(lives_at(s, node, view))}, {
        "shown": put(s.shown, node, False), "seen": view})


def narrow(s, target):
    """The listing of another task shows one ahead."""
    return Rule({
        "it waits for one of many, or that one has left": Or(s.place == MANY, s.place == LEFT),
        "the listing shows our node": s.shows_own,
        "all events of the connection have come": s.asked == s.conn,
        "one ahead is shown": s.all("Node", lambda n: s.shown(n) == (n == target)),
    }, wait_for(s, LAST, target))


TRUE = "P6: at the instant of a grant our node was there"
ALONE = "P1: at the instant of a grant nobody was ahead"


def watched(s, node):
    return Or(*[getattr(s, name)(node) for name in WATCHES])


def is_behind(s):
    return Or(s.place == MANY, s.place == LAST, s.place == LEFT)


def granted(s):
    return And(s.place == FIRST, Not(s.gone))


SYSTEM = System(
    name="grants by events",
    sorts={"Node": 3},
    fixed={"own": "-> Node", "ahead": "Node -> Bool"},
    facts={"nobody is ahead of itself": lambda s: Not(s.ahead(s.own))},
    variables={
        "now": "Int", "died": "Node -> Int", "conn": "Int", "seen": "Int",
        "watch": "Node -> Bool", "lost": "Node -> Bool", "due": "Node -> Bool",
        "mine": "Bool", "arms_own": "Bool", "arms_target": "Bool",  # our node was to be watched; requests under way
        "place": "Int", "target": "Node", "asked": "Int", "asking": "Bool", "reply": "Int", "at": "Int",
        "gone": "Bool",  # its own deletion was told
        # Another task of the client: on which connection it has asked, what the reply shows, and what its last listing shows.
        "request": "Int", "came": "Int", "listed": "Int", "shows_own": "Bool", "shown": "Node -> Bool",
    },
    begin=begin,
    steps={
        "delete": ("Node", delete), "ask": ("", ask), "answer": ("Int", answer), "listed": ("Node", listed),
        "follow": ("Node", follow), "armed": ("Int", armed), "event": ("Node", event), "make up": ("Node", make_up),
        "change": ("Node", change), "link": ("", link),
        "restore": ("Int", restore),
        "another asks": ("", another_asks), "another answered": ("Int", another_answered), "another listed": ("", another_listed),
        "another hears": ("Node", another_hears), "look": ("Node Int", look), "use": ("", use), "narrow": ("Node", narrow),
    },
    invariants={
        "times": lambda s: And(
            1 <= s.seen, s.seen <= s.now, s.all("Node", lambda n: And(0 <= s.died(n), s.died(n) <= s.now)), s.asked <= s.conn,
            s.listed <= s.conn, s.conn >= 1, s.request <= s.conn, 0 <= s.came, s.came <= s.seen,
            0 <= s.reply, s.reply <= s.seen, Implies(s.came == 0, Or(s.request == 0, s.request == s.conn)),
            ENTERS <= s.place, s.place <= FIRST),
        "one deletion at a time": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.died(n) > 0, s.died(n) == s.died(m)), n == m)),
        "requests": lambda s: And(
            Implies(s.asking, And(s.place == UNKNOWN, s.asked == s.conn, s.reply == 0)), 
            Implies(s.reply > 0, And(s.place == UNKNOWN, Not(s.arms_own), Not(s.arms_target))),
            Implies(s.place == ENTERS, Not(s.mine)), Implies(is_behind(s), s.mine),
            Implies(s.arms_target, And(s.place != LEFT, s.place != FIRST, Not(watched(s, s.target)))),
            Implies(And(s.arms_own, s.place != UNKNOWN), And(s.arms_target, s.all("Node", lambda n: Not(watched(s, n)))))),
        "who does not watch its own node watches nothing": lambda s: Implies(Not(s.mine), And(
            Not(s.arms_own), Not(s.arms_target), s.all("Node", lambda n: Not(watched(s, n))))),
        "a watch that has not fired": lambda s: s.all("Node", lambda n: Implies(s.watch(n), lives_at(s, n, s.seen))),
        "what is due has happened": lambda s: s.all("Node", lambda n: Implies(s.due(n), Not(lives_at(s, n, s.seen)))),
        "where a listing was answered, nothing is due": lambda s: Implies(
            Or(And(s.asked == s.conn, Or(s.reply > 0, s.place > UNKNOWN)), s.listed == s.conn,
               And(s.came > 0, s.request == s.conn)), nothing_due(s)),
        "our own node is watched": lambda s: Implies(And(s.mine, Not(s.arms_own), Not(s.gone)), watched(s, s.own)),
        "only the target is left": lambda s: Implies(And(s.place == LAST, Not(s.gone)), s.all("Node", lambda n: Implies(
            And(s.ahead(n), n != s.target), Not(lives_at(s, n, s.seen))))),
        "only those ahead are shown": lambda s: s.all("Node", lambda n: Implies(s.shown(n), s.ahead(n))),
        "who is not shown is gone": lambda s: Implies(s.shows_own, s.all("Node", lambda n: Implies(
            And(s.ahead(n), Not(s.shown(n))), Not(lives_at(s, n, s.seen))))),
        "a grant is true": lambda s: Implies(granted(s), And(lives_at(s, s.own, s.at), s.at <= s.seen)),
        "nobody was ahead": lambda s: Implies(granted(s), s.all("Node", lambda n: Implies(
            s.ahead(n), Not(lives_at(s, n, s.at))))),
    },
    promises={
        TRUE: lambda s: Implies(granted(s), lives_at(s, s.own, s.at)),
        ALONE: lambda s: Implies(granted(s), s.all("Node", lambda n: Implies(s.ahead(n), Not(lives_at(s, n, s.at))))),
    },
    reached={
        "a grant by a listing": Shown(granted, "ask, delete, delete, answer, listed"),
        "a grant by the deletion of the last one": Shown(granted, "ask, delete, answer, listed, armed, delete, event"),
        "a grant after an outage": Shown(
            granted, "ask, answer, link, restore, listed, armed, change, delete, link, restore, make up, ask, answer, listed"),
        "a grant by the listing of another task": Shown(
            granted, "follow, armed, another asks, another answered, another listed, delete, another hears, delete, event, use"),
        "a grant behind one that another task has listed": Shown(
            granted, "follow, armed, another asks, another answered, another listed, delete, look, narrow, delete, event"),
    },
    depth=10,
)


def first_if(condition):
    """A step in which the deletion of the target is the grant under this condition."""
    return {"place": lambda s, *n: If(And(condition(s), n[0] == s.target), s.literal(FIRST), s.place),
            "at": lambda s, *n: If(And(condition(s), n[0] == s.target), s.seen, s.at)}


def only_target(s, view):
    return lambda n: Or(s.watch(n), And(lives_at(s, n, view), n == s.target, s.arms_target))


OUTAGE, CAME = "what makes up for an outage comes before", "all events of the connection have come"
WEAKER = [
    Weaker("an event that makes up for an outage is a grant", weaker(SYSTEM, "make up", changes=first_if(lambda s: s.place == LAST)),
           TRUE,
           "delete, delete, ask, answer, listed, link, restore, make up",
           faults=["a waiter takes the deletion of the node ahead for the grant also on another connection"]),
    Weaker("the deletion of one of many is a grant", weaker(SYSTEM, "event", changes={
        "place": lambda s, n: If(And(n == s.target, s.place == MANY), s.literal(FIRST), s.place),
        "at": lambda s, n: s.died(n)}), ALONE, "follow, armed, delete, event"),
    Weaker("changed data of the last one are a grant", weaker(SYSTEM, "change", changes=first_if(lambda s: s.place == LAST)), ALONE,
           "ask, answer, listed, armed, change"),
    Weaker("our own node is not watched", weaker(SYSTEM, "armed", changes={
        "watch": only_target, "gone": lambda s, view: s.gone}), TRUE,
           "ask, answer, delete, listed, delete, armed", faults=["a waiter does not watch its own node"]),
    Weaker("who follows another one does not watch its own node", weaker(SYSTEM, "follow", changes={
        "arms_own": lambda s, n: s.arms_own}), TRUE,
           "follow, ask, delete, delete, armed, answer, listed, event",
           faults=["a waiter that follows another one does not watch its own node"]),
    Weaker("our own node is watched again only behind the next listing", weaker(SYSTEM, "change", changes={
        "arms_own": lambda s, n: s.arms_own, "mine": lambda s, n: And(s.mine, n != s.own)}), TRUE,
           "follow, armed, change, delete, delete, ask, answer, listed, event",
        faults=["a waiter does not watch its own node again before it lists the queue"]),
    Weaker("no listing after our own data have changed", weaker(SYSTEM, "change", changes={
        "place": lambda s, n: If(And(n == s.target, s.place != FIRST), s.literal(UNKNOWN), s.place)}), TRUE,
           "ask, answer, listed, armed, change, delete, delete, event",
        faults=["a waiter does not list the queue after its own data were changed"]),
    Weaker("a listing counts for the connection on which it is read", weaker(SYSTEM, "listed", changes={
        "asked": lambda s, n: s.conn}), TRUE,
           "ask, answer, listed, armed, delete, ask, answer, delete, delete, link, restore, listed, make up",
        faults=["the model: a waiter notes the connection when a listing is answered, not when it is asked for"]),
    Weaker("another one's listing counts for the connection on which it is read", weaker(SYSTEM, "another listed", changes={
        "listed": lambda s: s.conn}), TRUE,
           "follow, armed, another asks, another answered, delete, delete, link, restore, another listed, make up, use",
        faults=["the model: the listing that others use counts for the connection on which it was answered"]),
    Weaker("another task is answered before our watches are set again", without(SYSTEM, "another answered", OUTAGE), TRUE,
           "follow, armed, link, another asks, another answered, another listed, delete, delete, restore, make up, use",
           faults=["the model: another task is answered before the watches of a waiter are set again"]),
    Weaker("another one's listing is used while our node may be gone", weaker(SYSTEM, "use", needs={
        "the nearest one has left": lambda s: Or(s.place == LEFT, s.place == UNKNOWN)}), TRUE,
           "another asks, delete, another answered, another listed, ask, answer, use",
        faults=["a waiter uses another one's listing although its own node may be gone"]),
    Weaker("another one's listing is used after an event of another connection", without(SYSTEM, "use", CAME), TRUE,
           "another asks, another answered, follow, link, another listed, delete, delete, restore, make up, use",
           faults=["a waiter uses another one's listing after an event of another connection"]),
    Weaker("another one's listing that does not show our node is used", without(SYSTEM, "use", "the listing shows our node"), ALONE,
           "delete, follow, armed, use"),
    Weaker("a waiter narrows by a listing that does not show its node", without(SYSTEM, "narrow", "the listing shows our node"), ALONE,
           "follow, narrow, delete, armed"),
    Weaker("a waiter narrows to one of several that are shown", weaker(SYSTEM, "narrow", needs={
        "one ahead is shown": lambda s, target: s.shown(target)}), ALONE,
           "follow, another asks, another answered, another listed, narrow, delete, armed"),
    Weaker("a look that found a node strikes it out", without(SYSTEM, "look", "the node is gone"), ALONE,
           "another asks, another answered, another listed, look, follow, narrow, delete, armed"),
    Weaker("events come in any order", without(SYSTEM, "event", "older events come before"), TRUE,
           "delete, ask, delete, answer, listed, armed, event"),
    Weaker("a reply overtakes older events", without(SYSTEM, "another answered", "older events come before"), TRUE,
           "follow, armed, another asks, another answered, another listed, delete, event, delete, another asks, another answered, use"),
]
