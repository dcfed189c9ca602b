"""The life of a node: no attempt leaves a node behind, wherever its caller goes and whatever reply
is lost.

One attempt. Each create has a new name, but in a plain lock (`fixed`). A writer becomes a reader
when one transaction creates the reader's node and deletes its own. Servers lag.

A write of a lost connection may lie in the queue of its server. It is applied at any time at which
the leader takes the session to be at that server: until the next handshake elsewhere, and again
after a handshake there, whether the client waits for its answer or not. So the client dials no
server that owes it the outcome of a write, until a time is over in which the write was applied or
dropped.

Not here: a client that goes back when all servers owe (`late_creates`), deletes by others (A4), the
end of the session, with which all nodes go, and whose node a plain lock deletes (`plain`).
"""

from z3 import And, If, Implies, Not, Or

from kit import Rule, Shown, System, Weaker, put, weaker, with_step, without
from nodes import lives, there, times

CREATES, LOOKS, LIVES, DELETES, DONE = range(5)
NONE, ASKED, APPLIED = range(3)  # the write under way
CREATE, REPLACE, DELETE = range(3)  # what is to be done


def begin(s):
    return And(s.now == 0, s.stage == CREATES, s.goal == CREATE, s.write == NONE, s.linked, Not(s.left),
               s.all("Server", lambda x: And(Not(s.late(x)), Not(s.owes(x)))), s.barrier == 0, s.all("Node", lambda n: And(s.born(n) == 0, s.died(n) == 0, s.unused(n) == (n != s.own))))


def send(s):
    return Rule({"there is something to write": Or(s.stage == CREATES, s.stage == DELETES), "once": s.write == NONE,
                 "there is a connection": s.linked}, {"write": ASKED})


def written(s, stage, own):
    """A create or a delete is applied."""
    creates, replaces = stage == CREATES, And(stage == CREATES, s.goal == REPLACE)
    dies = lambda n: Or(And(replaces, n == s.writer), And(Not(creates), n == own, lives(s, n)))
    return {"now": s.now + 1, "born": lambda n: If(And(creates, n == own), s.now + 1, s.born(n)),
            "died": lambda n: If(dies(n), s.now + 1, s.died(n))}


def apply(s):
    return Rule({"it is under way": And(s.write == ASKED, s.linked)}, written(s, s.stage, s.own) | {"write": APPLIED})


def apply_late(s, server):
    return Rule({"it is under way": s.late(server), "the session is there, to the leader": s.owner == server},
                written(s, s.late_stage(server), s.late_own(server)) | {"late": put(s.late, server, False)})


def drop_late(s, server):
    """The leader refuses it, or has lost its connection to the server."""
    return Rule({"it is under way": s.late(server)}, {"late": put(s.late, server, False)})


def known(s):
    """Its node is known to be there."""
    return {"stage": If(s.left, s.literal(DELETES), s.literal(LIVES)), "goal": CREATE, "token": s.born(s.own)}


def reply(s):
    changes = {name: If(s.stage == CREATES, value, getattr(s, name)) for name, value in known(s).items()}
    return Rule({"it was applied": And(s.write == APPLIED, s.linked)}, changes | {
        "stage": If(s.stage == CREATES, changes["stage"], DONE), "write": NONE})


def cut(s):
    """What became of a create, or of the delete of a fixed name, is unknown. Other deletes are
    repeated."""
    unknown = And(s.write != NONE, Or(s.stage == CREATES, And(s.stage == DELETES, s.fixed)))
    return Rule({"there is a connection": s.linked}, {
        "linked": False, "write": NONE, "barrier": 0,
        "late": put(s.late, s.owner, s.write == ASKED), "owes": put(s.owes, s.owner, s.write != NONE),
        "late_stage": put(s.late_stage, s.owner, s.stage), "late_own": put(s.late_own, s.owner, s.own),
        "goal": If(And(unknown, s.stage == DELETES), DELETE, s.goal), "stage": If(unknown, LOOKS, s.stage)})


def dial(s, server):
    """A handshake whose answer the client does not wait for."""
    return Rule({"there is no connection": Not(s.linked), "the server owes nothing": Not(s.owes(server))}, {"owner": server})


def link(s, server):
    rule = dial(s, server)
    return Rule(rule.needs, rule.changes | {"linked": True})


def forget(s, server):
    """After a minute."""
    return Rule({"it was applied or dropped": Not(s.late(server))}, {"owes": put(s.owes, server, False)})


def ask(s):
    """The barrier, a write that changes nothing."""
    return Rule({"it looks": And(s.stage == LOOKS, s.linked, s.barrier == 0)}, {"now": s.now + 1, "barrier": s.now + 1})


def found(s, view):
    live = known(s)
    return Rule({"the look is behind the barrier": And(0 < s.barrier, s.barrier <= view), "some prefix": view <= s.now,
                 "it looks": And(s.stage == LOOKS, s.linked), "its node is shown": there(s, s.own, view)},
                live | {"stage": If(s.goal == DELETE, DELETES, live["stage"]), "barrier": 0})


def not_found(s, view, name):
    """Its create was not applied, and never will be; or its delete was."""
    again = And(Not(s.left), s.goal != DELETE)
    gives_up = And(s.left, s.goal == REPLACE)
    return Rule({"the look is behind the barrier": And(0 < s.barrier, s.barrier <= view), "some prefix": view <= s.now,
                 "it looks": And(s.stage == LOOKS, s.linked), "its node is not shown": Not(there(s, s.own, view)),
                 "the name is new": s.unused(name)}, {
        "barrier": 0, "unused": put(s.unused, name, And(s.unused(name), Not(again))),
        "stage": If(again, s.literal(CREATES), If(gives_up, s.literal(DELETES), s.literal(DONE))),
        "own": If(again, name, If(gives_up, s.writer, s.own)), "goal": If(gives_up, CREATE, s.goal)})


def leave(s):
    """The caller has gone, or releases the lock."""
    is_unsent = And(s.stage == CREATES, s.write == NONE)
    gives_up = And(is_unsent, s.goal == REPLACE)
    return Rule({"it is not done": s.stage != DONE}, {
        "left": True, "own": If(gives_up, s.writer, s.own), "goal": If(gives_up, CREATE, s.goal),
        "stage": If(Or(gives_up, s.stage == LIVES), s.literal(DELETES), If(is_unsent, DONE, s.stage))})


def downgrade(s, name):
    return Rule({"it has its node": And(s.stage == LIVES, Not(s.left), Not(s.fixed)), "the name is new": s.unused(name)}, {
        "goal": REPLACE, "writer": s.own, "own": name, "unused": put(s.unused, name, False), "stage": CREATES})


CARED, TOKEN = "P9: somebody will delete each node", "P5: the token is the write that has created the node"

SYSTEM = System(
    name="life of a node",
    sorts={"Node": 3, "Server": 2},
    fixed={"fixed": "-> Bool"},
    variables={
        "now": "Int", "born": "Node -> Int", "died": "Node -> Int", "unused": "Node -> Bool", "own": "Node", "writer": "Node",
        "stage": "Int", "goal": "Int", "write": "Int", "linked": "Bool", "left": "Bool", "barrier": "Int", "token": "Int",
        "owner": "Server",  # where the session is, to the leader
        "late": "Server -> Bool", "late_stage": "Server -> Int", "late_own": "Server -> Node",  # a write of a former connection
        "owes": "Server -> Bool",  # the outcome of a write, as far as the client knows
    },
    begin=begin,
    steps={
        "send": ("", send), "apply": ("", apply), "apply late": ("Server", apply_late), "reply": ("", reply), "cut": ("", cut),
        "drop late": ("Server", drop_late), "dial": ("Server", dial), "link": ("Server", link), "forget": ("Server", forget), "ask": ("", ask), "found": ("Int", found), "not found": ("Int Node", not_found), "leave": ("", leave),
        "downgrade": ("Node", downgrade),
    },
    invariants={
        "times": lambda s: And(times(s, "Node"), 0 <= s.barrier, s.barrier <= s.now),
        "stages": lambda s: And(
            CREATES <= s.stage, s.stage <= DONE, NONE <= s.write, s.write <= APPLIED, CREATE <= s.goal, s.goal <= DELETE,
            Implies(s.write != NONE, And(s.linked, Or(s.stage == CREATES, s.stage == DELETES))),
            Implies(s.goal == DELETE, Or(s.stage == LOOKS, s.stage == DONE)),
            Implies(s.barrier > 0, And(s.stage == LOOKS, s.linked)),
            Implies(And(s.stage == LOOKS, s.goal == DELETE), s.fixed), Implies(s.stage == LIVES, Not(s.left))),
        "names": lambda s: And(Not(s.unused(s.own)), s.all("Node", lambda n: Implies(s.unused(n), And(s.born(n) == 0, Not(And(
            s.goal == REPLACE, n == s.writer))))), Implies(And(s.goal == REPLACE, s.stage != DONE), s.own != s.writer)),
        "what is late": lambda s: s.all("Server", lambda x: Implies(s.late(x), And(s.owes(x), Implies(s.owner == x, And(
            Not(s.linked), s.late_own(x) == s.own, Or(
                And(s.late_stage(x) == CREATES, s.stage == LOOKS, s.goal != DELETE, s.born(s.own) == 0),
                And(s.late_stage(x) == DELETES, Or(s.stage == DELETES, And(s.stage == LOOKS, s.goal == DELETE))))))))),
        "what was created": lambda s: And(
            Implies(s.stage == CREATES, (s.write == APPLIED) == (s.born(s.own) > 0)), Implies(s.stage == LIVES, lives(s, s.own)),
            Implies(Or(s.stage == CREATES, And(s.stage == LOOKS, s.goal != DELETE)), s.died(s.own) == 0)),
        "what was replaced": lambda s: Implies(And(s.goal == REPLACE, s.stage != DONE), And(
            Or(s.stage == CREATES, s.stage == LOOKS), lives(s, s.writer) == (s.born(s.own) == 0))),
        "what was deleted": lambda s: Implies(s.stage == DELETES, And(
            s.born(s.own) > 0, Implies(s.write == APPLIED, s.died(s.own) > 0))),
        "behind the barrier nothing is late": lambda s: Implies(s.barrier > 0, And(
            s.born(s.own) < s.barrier, s.died(s.own) < s.barrier)),
        "each node is known": lambda s: s.all("Node", lambda n: Implies(lives(s, n), And(s.stage != DONE, Or(
            n == s.own, And(s.goal == REPLACE, n == s.writer))))),
        "the token": lambda s: Implies(s.stage == LIVES, s.token == s.born(s.own)),
    },
    promises={
        CARED: lambda s: s.all("Node", lambda n: Implies(lives(s, n), And(s.stage != DONE, Or(
            n == s.own, And(s.goal == REPLACE, n == s.writer))))),
        TOKEN: lambda s: Implies(s.stage == LIVES, s.token == s.born(s.own)),
    },
    reached={
        "a create whose reply was lost is found": Shown(lambda s: s.stage == LIVES, "send, apply, cut, link, ask, found"),
        "a create that was lost is repeated": Shown(
            lambda s: s.stage == LIVES, "send, cut, link, ask, not found, send, apply, reply"),
        "a create that comes late, and an attempt that was left": Shown(
            lambda s: s.stage == DONE, "send, cut, leave, apply late, link, ask, found, send, apply, reply"),
        "a client goes elsewhere, and comes back after a minute": Shown(lambda s: And(s.stage == LIVES, Not(s.owes(s.owner)), s.some(
            "Server", lambda x: s.owes(x))), "send, cut, dial, link, ask, not found, drop late, forget, send, cut, link, ask, not found, "
            "send, apply, reply"),
        "a writer becomes a reader": Shown(
            lambda s: And(s.stage == LIVES, s.token > 1), "send, apply, reply, downgrade, send, cut, apply late, link, ask, found"),
        "the delete of a plain lock is repeated": Shown(
            lambda s: And(s.fixed, s.stage == DONE), "send, apply, reply, leave, send, cut, link, ask, found, send, apply, reply"),
    },
    depth=11,
)


def to_done(condition):
    return {"stage": lambda s: If(condition(s), s.literal(DONE), s.stage)}


def believe(s, other):
    return Rule({"it was applied": And(s.write == APPLIED, s.stage == CREATES), "the reply names another node": other != s.own}, {
        "own": other, "stage": LIVES, "write": NONE, "token": s.born(other)})


WEAKER = [
    Weaker("nobody looks for a node after the reply to its create was lost", weaker(SYSTEM, "cut", changes=to_done(
        lambda s: And(s.stage == CREATES, s.write != NONE))), CARED, "send, apply, cut",
        faults=["a contender does not look for its node after the reply to its create was lost"]),
    Weaker("nobody looks for it if the caller has gone", weaker(SYSTEM, "cut", changes={"stage": lambda s: If(
        And(s.stage == CREATES, s.write != NONE), If(s.left, s.literal(DONE), s.literal(LOOKS)), s.stage)}), CARED,
           "send, leave, cut, apply late",
        faults=["a cancelled attempt is not cleaned up if the reply to its create was lost"]),
    Weaker("a delete whose reply was lost is not repeated", weaker(SYSTEM, "cut", changes={"stage": lambda s: If(
        s.write == NONE, s.stage, If(s.stage == CREATES, s.literal(LOOKS), s.literal(DONE)))}), CARED,
           "send, apply, reply, leave, send, cut",
        faults=["a delete is not repeated after its reply was lost"]),
    Weaker("a create under way is left when the caller goes", weaker(SYSTEM, "leave", changes=to_done(
        lambda s: s.stage == CREATES)), CARED,
           "send, apply, leave", faults=["a cancelled create is left to the end of the session"]),
    Weaker("a release that looks for its node is left when the caller goes", weaker(SYSTEM, "leave", changes=to_done(
        lambda s: And(s.stage == LOOKS, s.goal == DELETE))), CARED, "send, apply, leave, reply, send, cut, leave",
        faults=["a release that is dropped while it looks for its node is left to the end of the session"]),
    Weaker("a change from writer to reader that is dropped forgets the writer's node", weaker(SYSTEM, "leave", changes={
        "goal": lambda s: If(s.goal == REPLACE, CREATE, s.goal)}), CARED, "send, apply, reply, downgrade, send, leave",
        faults=["a change from writer to reader that is dropped leaves the writer's node"]),
    Weaker("a look behind no barrier", weaker(SYSTEM, "not found", needs={
        "the look is behind the barrier": lambda s, view, name: And(0 < s.barrier, 0 <= view)}), CARED,
           "send, apply, cut, link, ask, not found",
        faults=["the model has no lagging servers: a listing behind no barrier would find the node of a lost create"]),
    Weaker("a leader that takes late writes of a session that is elsewhere", without(
        SYSTEM, "apply late", "the session is there, to the leader"), CARED, "send, cut, link, ask, apply late, not found"),
    Weaker("a server that owes a write is dialed, and the client waits for no answer", without(
        SYSTEM, "dial", "the server owes nothing"), CARED, "send, cut, link, ask, not found, cut, dial, apply late"),
    Weaker("the client comes back to a server that owes a write", without(SYSTEM, "link", "the server owes nothing"), CARED,
           "send, cut, link, ask, not found, cut, link, apply late",
        faults=["a server that owes the outcome of a write is dialed again"]),
    Weaker("what a server owes is forgotten at the next connection", weaker(SYSTEM, "link", changes={
        "owes": lambda s, server: lambda x: False}), CARED, "send, cut, link, ask, not found, cut, dial, apply late",
        faults=["what a server owes is forgotten at the next connection"]),
    Weaker("what a server owes is forgotten before the write was dropped", without(
        SYSTEM, "forget", "it was applied or dropped"), CARED, "send, cut, link, ask, not found, cut, forget, dial, apply late"),
    Weaker("a reply that names another node is believed", with_step(SYSTEM, "believe", "Node", believe), CARED,
           "send, apply, believe",
           faults=["a reply to a create that names another node is believed"]),
    Weaker("a token that a server invents is believed", weaker(SYSTEM, "reply", changes={"token": lambda s: s.token}), TOKEN,
           "send, apply, reply",
           faults=["a czxid that a server invents becomes a fencing token"]),
    Weaker("the token of a node that is found again is that of the look", weaker(SYSTEM, "found", changes={
        "token": lambda s, view: view}), TOKEN, "send, apply, cut, link, ask, found"),
]
