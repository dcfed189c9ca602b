"""The turn of a waiter: at an instant our node was there, and nobody was ahead.

One contender, whose node and all nodes ahead were there at the beginning. Later ones are behind it
(`queue_lock`). A deletion may become known in any way: by an event or a reply, of any task of the
client, on any connection. A listing shows those ahead without those that are known to be gone. When
it shows our node, and nobody ahead, one thing is missing: that our node was there so late.

Events and replies of one connection come in the order of writes. Events that make up for an outage
come in any order, but ahead of all others. Events that come before the watches of their request are
set are kept back until then, or until the connection has ended. A contender decides when it has read
all that has come.

`recipes/src/queue/turn.rs` has the rules. What they give is the condition "our own deletion would
have been told" of `queue_lock`.

Not here: whether somebody is woken (`wakeups`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, without

WAITS, UNKNOWN, FIRST = range(3)
# A watch is asked for, and then set. It is lost with its connection, and restored on the next one, where its event is due if the
# node is gone. At last a deletion or other data are told, which the contender reads.
NONE, ASKED, SET, LOST, DUE, TOLD, CHANGED = range(7)
NOTHING, LIST, OWN = range(3)  # what it asks for


def lives_at(s, node, view):
    return Or(s.died(node) == 0, s.died(node) > view)


def is_told(s, view):
    """All events up to this prefix have come."""
    return s.all("Node", lambda n: Implies(s.watch(n) == SET, lives_at(s, n, view)))


def none(s, *states):
    return s.all("Node", lambda n: And(*[s.watch(n) != state for state in states]))


def free(s):
    return And(s.asks == NOTHING, s.reply == 0)


LINKED, FREE = "there is a connection", "it has no request"
OLDER, OUTAGE = "older events come before", "what makes up for an outage comes before"


def replied(s, view):
    """What holds of each reply that shows this prefix."""
    return {LINKED: s.up, "no earlier prefix": And(s.seen <= view, view <= s.now), OLDER: is_told(s, view),
            OUTAGE: none(s, LOST, DUE)}


def decides(s):
    """It has read all that has come, and has no request under way."""
    return {"all is read": none(s, TOLD, CHANGED), FREE: And(free(s), s.place != FIRST)}


def nobody(s):
    """Nobody ahead is left in a listing that shows our node."""
    return {"the listing shows our node": s.shows_own, "nobody ahead is shown": s.all("Node", lambda n: Not(s.shown(n)))}


def begin(s):
    return And(
        s.now == 1, s.seen == 1, s.conn == 1, s.up, s.asked == 0, s.place == WAITS, s.asks == NOTHING, s.reply == 0, s.at == 0,
        Not(s.gone), Not(s.shows_own), s.all("Node", lambda n: And(
            s.died(n) == 0, s.watch(n) == NONE, Implies(s.shown(n), s.ahead(n)))))


def delete(s, node):
    return Rule({"the node lives": s.died(node) == 0}, {"now": s.now + 1, "died": put(s.died, node, s.now + 1)})


# What the contender does.

def watch(s, one, other):
    """It watches its own node and two that are shown, or one. It gives up the others, also such as have not fired: another task
    knows that they are gone. The connection counts on which it first asked for its own watch."""
    wanted = lambda n: Or(n == s.own, n == one, n == other)
    return Rule(decides(s) | {
        "it waits": s.place == WAITS, "the listing shows our node": s.shows_own, "they are shown": And(s.shown(one), s.shown(other)),
    }, {"watch": lambda n: If(wanted(n), If(s.watch(n) == NONE, s.literal(ASKED), s.watch(n)), s.literal(NONE)),
        "asked": If(s.watch(s.own) == NONE, If(s.up, s.conn, s.literal(0)), s.asked)})


def ask_list(s):
    return Rule(decides(s), {"asks": LIST})


def ask_own(s):
    return Rule(decides(s) | nobody(s) | {"it waits": s.place == WAITS}, {"asks": OWN})


def turn(s):
    """By events."""
    return Rule(decides(s) | nobody(s) | {
        "it waits": s.place == WAITS,
        "its own watch is asked for": s.watch(s.own) != NONE,
        "all its other watches have ended": s.all("Node", lambda n: Or(n == s.own, s.watch(n) == NONE)),
        "its own watch was first asked for on this connection": And(s.up, s.asked == s.conn),
    }, {"place": FIRST, "at": s.seen})


def read(s, node):
    """The event of another node, or the deletion of ours. It waits for a reply first."""
    is_deleted = s.watch(node) == TOLD
    return Rule({"it has come": Or(is_deleted, And(s.watch(node) == CHANGED, node != s.own)), FREE: free(s)}, {
        "watch": put(s.watch, node, NONE), "gone": Or(s.gone, And(node == s.own, is_deleted)),
        "shown": put(s.shown, node, And(s.shown(node), Not(is_deleted)))})


def watch_again(s):
    """The data of our node were changed."""
    return Rule({"it has come": s.watch(s.own) == CHANGED, FREE: free(s)}, {"watch": put(s.watch, s.own, ASKED), "place": UNKNOWN})


def listed(s):
    """It reads the reply, perhaps on a later connection."""
    there = lambda n: And(s.ahead(n), lives_at(s, n, s.reply))
    is_first = s.all("Node", lambda n: Not(there(n)))
    return Rule({"it is answered": s.reply > 0}, {
        "reply": 0, "shows_own": True, "shown": there, "gone": Or(s.gone, Not(lives_at(s, s.own, s.reply))),
        "place": If(is_first, s.literal(FIRST), s.literal(WAITS)), "at": If(is_first, s.reply, s.at)})


# What the servers say.

def answer(s, view):
    """To the request for a listing, or for our own node."""
    is_own = s.asks == OWN
    return Rule(replied(s, view) | {"it has asked": s.asks != NOTHING, "older requests were answered": none(s, ASKED)}, {
        "asks": NOTHING, "seen": view, "reply": If(is_own, s.literal(0), view),
        "gone": Or(s.gone, And(is_own, Not(lives_at(s, s.own, view)))),
        "place": If(is_own, s.literal(FIRST), s.place), "at": If(is_own, view, s.at)})


def armed(s, node, view):
    """The reply to a request for watches. What is gone is told at once."""
    return Rule(replied(s, view) | {
        "the watch is asked for": s.watch(node) == ASKED,
        "our own node is watched first": Or(node == s.own, s.watch(s.own) != ASKED),
    }, {"seen": view, "watch": put(s.watch, node, If(lives_at(s, node, view), s.literal(SET), s.literal(TOLD)))})


def event(s, node):
    view = s.died(node)
    return Rule({
        "the node is watched": And(s.watch(node) == SET, view > 0),
        OLDER: is_told(s, view - 1), OUTAGE: none(s, LOST, DUE),
    }, {"watch": put(s.watch, node, TOLD), "seen": If(s.seen < view, view, s.seen)})


def change(s, node):
    """Somebody changes the data of a watched node."""
    return Rule({"the node is watched": And(s.watch(node) == SET, s.died(node) == 0)}, {"watch": put(s.watch, node, CHANGED)})


def make_up(s, node):
    """For an outage."""
    return Rule({"the event is due": s.watch(node) == DUE}, {"watch": put(s.watch, node, TOLD)})


def cut(s):
    return Rule({LINKED: s.up}, {
        "up": False, "watch": lambda n: If(Or(s.watch(n) == SET, s.watch(n) == DUE), s.literal(LOST), s.watch(n))})


def release(s, node):
    """An event was kept back, and the request of its watch was not answered."""
    return Rule({"the connection has ended": Not(s.up), "it has come early": And(
        s.watch(node) == ASKED, Not(lives_at(s, node, s.seen)))}, {"watch": put(s.watch, node, TOLD)})


def link(s):
    """The next connection."""
    return Rule({"there is none": Not(s.up)}, {
        "up": True, "conn": s.conn + 1, "watch": lambda n: If(s.watch(n) == ASKED, s.literal(LOST), s.watch(n))})


def restore(s, view):
    """The first request on it sets all watches again. The server compares."""
    return Rule({LINKED: s.up, "no earlier prefix": And(s.seen <= view, view <= s.now), OLDER: is_told(s, view)}, {
        "seen": view, "watch": lambda n: If(s.watch(n) == LOST, If(lives_at(s, n, view), s.literal(SET), s.literal(DUE)), s.watch(n))})


# What other tasks of the client learn.

def hear(s, view):
    return Rule(replied(s, view), {"seen": view})


def strike(s, node):
    return Rule({"the node is gone": Not(lives_at(s, node, s.seen))}, {"shown": put(s.shown, node, False)})


def another_lists(s, view):
    """An old reply may be read late."""
    return Rule({"it was answered": And(1 <= view, view <= s.seen)}, {
        "shows_own": lives_at(s, s.own, view), "shown": lambda n: And(s.ahead(n), lives_at(s, n, view))})


TRUE = "P6: at the instant of a grant our node was there"
ALONE = "P1: at the instant of a grant nobody was ahead"


def granted(s):
    return And(s.place == FIRST, Not(s.gone))


def is_open(s):
    """It is not known whether our own node is watched."""
    return Or(*[s.watch(s.own) == state for state in (ASKED, LOST, DUE)])


SYSTEM = System(
    name="turns",
    sorts={"Node": 3},
    fixed={"own": "-> Node", "ahead": "Node -> Bool"},
    facts={"nobody is ahead of itself": lambda s: Not(s.ahead(s.own))},
    variables={
        "now": "Int", "died": "Node -> Int", "conn": "Int", "up": "Bool", "seen": "Int",
        "watch": "Node -> Int", "asked": "Int",  # the connection on which its own watch was first asked for
        "place": "Int", "asks": "Int", "reply": "Int", "at": "Int",  # a listing that it has not read; the instant of the grant
        "gone": "Bool",  # its own deletion was told
        "shows_own": "Bool", "shown": "Node -> Bool",  # the listing that the tasks of the client share
    },
    begin=begin,
    steps={
        "delete": ("Node", delete), "watch": ("Node Node", watch), "ask for a listing": ("", ask_list),
        "ask for our node": ("", ask_own), "turn": ("", turn), "read": ("Node", read), "watch again": ("", watch_again),
        "listed": ("", listed), "answer": ("Int", answer),
        "armed": ("Node Int", armed), "event": ("Node", event), "change": ("Node", change), "make up": ("Node", make_up),
        "cut": ("", cut), "release": ("Node", release), "link": ("", link), "restore": ("Int", restore),
        "hear": ("Int", hear), "strike": ("Node", strike), "another lists": ("Int", another_lists),
    },
    invariants={
        "times": lambda s: And(
            1 <= s.seen, s.seen <= s.now, s.all("Node", lambda n: And(0 <= s.died(n), s.died(n) <= s.now)), s.conn >= 1,
            0 <= s.asked, s.asked <= s.conn, 0 <= s.reply, s.reply <= s.seen, WAITS <= s.place, s.place <= FIRST,
            NOTHING <= s.asks, s.asks <= OWN, s.all("Node", lambda n: And(NONE <= s.watch(n), s.watch(n) <= CHANGED))),
        "one deletion at a time": lambda s: s.all("Node Node", lambda n, m: Implies(
            And(s.died(n) > 0, s.died(n) == s.died(m)), n == m)),
        "requests": lambda s: And(Or(s.asks == NOTHING, s.reply == 0), Implies(s.asks == OWN, s.place == WAITS),
                                  Implies(s.place == FIRST, And(s.asks == NOTHING, s.reply == 0))),
        "a watch that has not fired": lambda s: s.all("Node", lambda n: Implies(s.watch(n) == SET, lives_at(s, n, s.seen))),
        "what is told has happened": lambda s: s.all("Node", lambda n: Implies(
            Or(s.watch(n) == DUE, s.watch(n) == TOLD), Not(lives_at(s, n, s.seen)))),
        "who does not watch its own node watches nothing": lambda s: Implies(And(s.watch(s.own) == NONE, Not(s.gone)), And(
            s.asked == 0, s.all("Node", lambda n: s.watch(n) == NONE))),
        "what was asked for on this connection is not answered before our own watch is set": lambda s: Implies(
            And(s.up, s.asked == s.conn, s.place == WAITS, is_open(s), Not(s.gone)), And(
                s.some("Node", lambda n: And(n != s.own, s.watch(n) == ASKED)), none(s, SET, TOLD, CHANGED))),
        "nothing is restored on this connection": lambda s: Implies(
            And(s.up, s.asked == s.conn, Not(s.gone)), none(s, LOST, DUE)),
        "a listing is behind our own watch": lambda s: Implies(And(s.up, s.asked == s.conn, s.reply > 0), Not(is_open(s))),
        "only those ahead are shown": lambda s: s.all("Node", lambda n: Implies(s.shown(n), s.ahead(n))),
        "who is not shown is gone": lambda s: Implies(And(s.shows_own, Not(s.gone)), s.all("Node", lambda n: Implies(
            And(s.ahead(n), Not(s.shown(n))), Not(lives_at(s, n, s.seen))))),
        "who asks for its own node has nobody ahead": lambda s: Implies(And(s.asks == OWN, Not(s.gone)), s.all(
            "Node", lambda n: Implies(s.ahead(n), Not(lives_at(s, n, s.seen))))),
        "a grant is true": lambda s: Implies(granted(s), And(lives_at(s, s.own, s.at), s.at <= s.seen)),
        "nobody was ahead": lambda s: Implies(granted(s), s.all("Node", lambda n: Implies(
            s.ahead(n), Not(lives_at(s, n, s.at))))),
    },
    promises={
        TRUE: lambda s: Implies(granted(s), lives_at(s, s.own, s.at)),
        ALONE: lambda s: Implies(granted(s), s.all("Node", lambda n: Implies(s.ahead(n), Not(lives_at(s, n, s.at))))),
    },
    reached={
        "a grant by a listing": Shown(granted, "ask for a listing, delete, delete, answer, listed"),
        "a grant by events": Shown(granted, "another lists, watch, armed, armed, delete, event, read, turn"),
        "a grant after an outage": Shown(
            granted, "another lists, watch, armed, armed, delete, cut, link, restore, make up, read, ask for our node, answer"),
        "a grant by what another task has learned": Shown(
            granted, "another lists, watch, armed, armed, delete, delete, event, read, hear, strike, turn"),
        "a grant after our own data were changed": Shown(
            granted, "another lists, watch, armed, armed, change, watch again, ask for a listing, armed, answer, listed, "
            "delete, event, read, turn"),
        "an event that was kept back to the end of its connection": Shown(
            granted, "another lists, watch, delete, hear, cut, release, read, link, restore, ask for our node, answer"),
    },
    depth=11,
)

WATCHED = "another lists, watch, armed, armed, "


def without_own(s, one, other):
    """Our own node only seems to be watched."""
    return lambda n: If(Or(n == one, n == other), If(s.watch(n) == NONE, s.literal(ASKED), s.watch(n)), s.literal(NONE))


WEAKER = [
    Weaker("an event that makes up for an outage is a grant", without(
        SYSTEM, "turn", "its own watch was first asked for on this connection"), TRUE,
           WATCHED + "delete, delete, cut, link, restore, make up, read, turn",
           faults=["a waiter takes the deletion of the node ahead for the grant also on another connection"]),
    Weaker("watches count for the connection on which they are restored", weaker(SYSTEM, "restore", changes={
        "asked": lambda s, view: s.conn}), TRUE,
           WATCHED + "delete, delete, cut, link, restore, make up, read, turn"),
    Weaker("our own node is not watched", without(weaker(
        SYSTEM, "watch", changes={"watch": without_own}), "turn", "its own watch is asked for"), TRUE,
           "another lists, watch, armed, delete, delete, event, read, turn", faults=["a waiter does not watch its own node"]),
    Weaker("a watch that has not fired need not end", without(SYSTEM, "turn", "all its other watches have ended"), TRUE,
           "another lists, watch, delete, delete, hear, strike, turn",
           faults=["a waiter takes what another one was told for the grant"]),
    Weaker("the connection of the newest watch counts", weaker(SYSTEM, "watch", changes={
        "asked": lambda s, one, other: If(s.some("Node", lambda n: And(
            Or(n == s.own, n == one, n == other), s.watch(n) == NONE)), If(s.up, s.conn, s.literal(0)), s.asked)}), TRUE,
           "delete, hear, " + WATCHED + "delete, delete, cut, link, restore, another lists, watch, another lists, watch, "
           "make up, read, turn"),
    Weaker("a listing that does not show our node", without(SYSTEM, "ask for our node", "the listing shows our node"), ALONE,
           "ask for our node, answer"),
    Weaker("our own node is asked for before the others are known to be gone", without(
        SYSTEM, "ask for our node", "nobody ahead is shown"), ALONE, "another lists, ask for our node, answer"),
    Weaker("nobody looks who is ahead", without(SYSTEM, "turn", "nobody ahead is shown"), ALONE,
           "another lists, watch, armed, delete, armed, read, turn"),
    Weaker("changed data, or NO_AUTH, are taken for a deletion", without(SYSTEM, "strike", "the node is gone"), ALONE,
           "another lists, strike, ask for our node, answer"),
    Weaker("changed data of the last one are a grant", weaker(SYSTEM, "read", changes={
        "shown": lambda s, n: put(s.shown, n, False)}), ALONE, WATCHED + "change, read, turn"),
    Weaker("our own node is watched again only behind the next listing", weaker(SYSTEM, "watch again", changes={
        "watch": lambda s: put(s.watch, s.own, NONE)}), TRUE,
           WATCHED + "change, watch again, ask for a listing, answer, listed, watch, delete, delete, event, read, turn",
           faults=["a waiter does not watch its own node again before it lists the queue"]),
    Weaker("no listing after our own data were changed", weaker(SYSTEM, "watch again", changes={"place": None}), TRUE,
           WATCHED + "change, watch again, delete, delete, event, read, turn",
           faults=["a waiter does not list the queue after its own data were changed"]),
    Weaker("what others know is used while our own node may be gone", weaker(SYSTEM, "turn", needs={
        "it waits": lambda s: Or(s.place == WAITS, s.place == UNKNOWN)}), TRUE,
           WATCHED + "change, watch again, delete, delete, event, read, turn"),
    Weaker("a reply overtakes an older request for our own watch", without(SYSTEM, "answer", "older requests were answered"), TRUE,
           WATCHED + "change, watch again, ask for a listing, answer, listed, delete, delete, event, read, turn"),
    Weaker("an event is read before a reply that came before it", without(SYSTEM, "watch again", FREE), TRUE,
           WATCHED + "ask for a listing, answer, change, watch again, listed, delete, delete, event, read, turn"),
    Weaker("a waiter decides before it has read all that has come", without(SYSTEM, "turn", "all is read"), TRUE,
           WATCHED + "delete, event, read, delete, event, delete, hear, strike, turn"),
    Weaker("an event is told before our own watch is set", without(SYSTEM, "armed", "our own node is watched first"), TRUE,
           "another lists, watch, delete, delete, armed, read, turn"),
    Weaker("an event that was kept back is told while the connection goes on", without(
        SYSTEM, "release", "the connection has ended"), TRUE, "another lists, watch, delete, delete, hear, release, read, turn"),
    Weaker("events come in any order", without(SYSTEM, "event", OLDER), TRUE, WATCHED + "delete, delete, event, read, turn"),
    Weaker("a reply overtakes older events", without(SYSTEM, "hear", OLDER), TRUE,
           WATCHED + "delete, event, read, delete, delete, hear, strike, turn"),
    Weaker("a server shows an earlier prefix than before", weaker(SYSTEM, "answer", needs={
        "no earlier prefix": lambda s, view: And(1 <= view, view <= s.now)}), ALONE,
           "another lists, delete, delete, hear, strike, strike, ask for our node, answer"),
]
