"""Creates that come late: the second net, which trusts no order of the servers.

One attempt. A create of a lost connection is applied at any time, or never, wherever the client looks
meanwhile, and by whatever look. So it may be applied after it was looked for and not found, as when
every server owes the outcome of a write and the client goes back to one of them. The client keeps the
names that it has not found, uses them no more, and deletes their nodes when a listing shows them.

Not here: late deletes, which name a node that nobody wants; the plain lock, whose name all contenders
use (`plain`); how few names are kept, and for how long.
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, with_step
from nodes import lives, there, times

CREATES, LOOKS, LIVES, DELETES, DONE = range(5)


def begin(s):
    return And(s.now == 0, s.stage == CREATES, Not(s.asked), Not(s.left), s.all("Node", lambda n: And(
        s.born(n) == 0, s.died(n) == 0, Not(s.late(n)), Not(s.kept(n)), s.unused(n) == (n != s.own))))


def send(s):
    return Rule({"there is something to write": Or(s.stage == CREATES, s.stage == DELETES), "once": Not(s.asked)}, {"asked": True})


def apply(s):
    creates = s.stage == CREATES
    return Rule({"it is under way": And(s.asked, If(creates, s.born(s.own) == 0, s.died(s.own) == 0))}, {
        "now": s.now + 1, "born": put(s.born, s.own, If(creates, s.now + 1, s.born(s.own))),
        "died": put(s.died, s.own, If(creates, s.died(s.own), s.now + 1))})


def known(s):
    """Its node is known to be there."""
    return If(s.left, s.literal(DELETES), s.literal(LIVES))


def reply(s):
    creates = s.stage == CREATES
    return Rule({"it was applied": And(s.asked, If(creates, s.born(s.own) > 0, s.died(s.own) > 0))}, {
        "asked": False, "stage": If(creates, known(s), s.literal(DONE))})


def cut(s):
    creates = s.stage == CREATES
    return Rule({"a request is under way": s.asked}, {
        "asked": False, "late": put(s.late, s.own, And(creates, s.born(s.own) == 0)), "stage": If(creates, LOOKS, s.stage)})


def apply_late(s, node):
    return Rule({"it is late": s.late(node)}, {
        "now": s.now + 1, "born": put(s.born, node, s.now + 1), "late": put(s.late, node, False)})


def found(s, view):
    return Rule({"it looks": s.stage == LOOKS, "its node is shown": And(there(s, s.own, view), view <= s.now)}, {"stage": known(s)})


def not_found(s, name):
    """The look shows anything, or is behind no barrier."""
    return Rule({"it looks": s.stage == LOOKS, "the name is new": s.unused(name)}, {
        "kept": put(s.kept, s.own, True), "own": If(s.left, s.own, name), "unused": put(s.unused, name, s.left),
        "stage": If(s.left, s.literal(DONE), s.literal(CREATES))})


def list_all(s, node, view):
    """A listing shows such a node: it is deleted for certain."""
    return Rule({"its name was kept": s.kept(node), "it is shown": And(there(s, node, view), view <= s.now)}, {
        "now": s.now + 1, "died": put(s.died, node, If(lives(s, node), s.now + 1, s.died(node))),
        "kept": put(s.kept, node, False)})


def leave(s):
    """The caller has gone, or releases the lock."""
    is_unsent = And(s.stage == CREATES, Not(s.asked))
    return Rule({"it is not done": s.stage != DONE}, {
        "left": True, "stage": If(is_unsent, s.literal(DONE), If(s.stage == LIVES, s.literal(DELETES), s.stage))})


CARED, KEPT = "P9: somebody will delete each node", "P6: a holder keeps its node until it releases it"


def is_cared_for(s):
    return s.all("Node", lambda n: Implies(lives(s, n), Or(s.kept(n), And(n == s.own, s.stage != DONE))))


SYSTEM = System(
    name="late creates",
    sorts={"Node": 3},
    fixed={},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int", "unused": "Node -> Bool", "own": "Node", "stage": "Int",
        "asked": "Bool", "left": "Bool", "late": "Node -> Bool",
        "kept": "Node -> Bool",  # the names that were not found
    },
    begin=begin,
    steps={
        "send": ("", send), "apply": ("", apply), "apply late": ("Node", apply_late), "reply": ("", reply), "cut": ("", cut),
        "found": ("Int", found), "not found": ("Node", not_found), "list": ("Node Int", list_all), "leave": ("", leave),
    },
    invariants={
        "times": lambda s: times(s, "Node"),
        "stages": lambda s: And(CREATES <= s.stage, s.stage <= DONE, Implies(s.asked, Or(s.stage == CREATES, s.stage == DELETES)),
                                Implies(And(s.stage == CREATES, Not(s.asked)), s.born(s.own) == 0)),
        "names": lambda s: And(Not(s.unused(s.own)), Implies(s.kept(s.own), s.stage == DONE), s.all("Node", lambda n: Implies(
            s.unused(n), And(s.born(n) == 0, Not(s.kept(n)))))),
        "what is late": lambda s: s.all("Node", lambda n: Implies(s.late(n), And(s.born(n) == 0, Or(
            s.kept(n), And(n == s.own, s.stage == LOOKS))))),
        "what lives": lambda s: And(Implies(s.stage == LIVES, lives(s, s.own)), Implies(
            Or(s.stage == CREATES, s.stage == LOOKS), s.died(s.own) == 0), Implies(s.stage == DELETES, s.born(s.own) > 0)),
        "each node is known": is_cared_for,
        "a node that was deleted is not there": lambda s: Implies(And(s.stage == DONE, Not(s.kept(s.own))), Not(lives(s, s.own))),
    },
    promises={CARED: is_cared_for, KEPT: lambda s: Implies(s.stage == LIVES, lives(s, s.own))},
    reached={
        "a create that comes late is found": Shown(lambda s: And(s.stage == LIVES, s.some("Node", lambda n: And(
            n != s.own, s.died(n) > 0))), "send, cut, not found, send, apply late, list, apply, reply"),
        "a create that comes when the attempt is over": Shown(lambda s: And(s.stage == DONE, s.died(s.own) > 0),
            "send, leave, cut, not found, apply late, list"),
        "a create whose reply was lost is found": Shown(lambda s: And(s.stage == DONE, s.died(s.own) > 0),
            "send, apply, cut, found, leave, send, apply, reply"),
    },
)


def forget(s, node):
    return Rule({"its name was kept": s.kept(node)}, {"kept": put(s.kept, node, False)})


WEAKER = [
    Weaker("a create that was looked for and not found is forgotten", weaker(SYSTEM, "not found", changes={"kept": None}), CARED,
           "send, cut, not found, apply late",
        faults=["a client does not note which creates a look has not found"]),
    Weaker("the client looks for it only once", with_step(SYSTEM, "forget", "Node", forget), CARED,
           "send, cut, not found, forget, apply late",
        faults=["a client looks for late creates only once"]),
    Weaker("a name that was not found is used again", weaker(SYSTEM, "not found", changes={
        "own": lambda s, name: s.own, "unused": lambda s, name: s.unused}), KEPT,
           "send, cut, not found, send, apply, reply, list",
        faults=["a downgrade is repeated under the name that a look has not found"]),
]
