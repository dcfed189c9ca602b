"""The lease: while the client takes it for valid, its session has not ended. With real time, and
with clocks of their own rates.

One request of the client is followed, a *touch*: its server notes the session, answers, and tells
the leader when the leader pings. Two requests to the leader follow, as
`session/src/machine/lease/proof.rs` says: `W1`, a `sync` or a write, at least `wait` after the touch was
answered, and `W2`, a write, after the answer to `W1`. The touch is any one, so what holds for it
holds for the one from which the client counts.

A leader ends a session in two steps: it decides, and marks the session within `mark`. A proof that
is complete while a former lease is valid counts at once. Behind the end of that lease it counts when
a third write, `W3`, is answered that was sent `confirm` later (`lease/validity.rs`).

The unit of time is the session timeout. The leader's clock runs at `low` to `high` times the rate
of the client's, and may change its rate. The server between them reads no clock. Links keep their
order (F4) and may be as slow as they like, which is also how a link is cut. Another leader may
begin at any time, and then the former one commits no more (F6, F7).

It is proved for all constants that keep three bounds: `gap <= low * wait`, `mark <= low * confirm` and
`high * lease <= 1`. `gap` is how long before the leader handles a request it has pinged at the latest.

Not here: what a lost session does to its nodes (`queue_lock`), when the client writes.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from z3 import And, If, Implies, Not, Or, RealVal

from kit import Rule, Shown, System, Weaker, weaker, with_step, without

TOUCH, DIRECT, RESUME, NEW = range(4)  # the followed request: at a server, at the leader, to resume or to make a session
NOT_SENT, SENT, NOTED, ANSWERED = range(4)  # the touch
NONE, DOWN, UP, TOLD = range(4)  # the first ping behind the note: to the server, its answer, at the leader
WAITING, ASKED, PASSED, HANDLED, DONE = range(5)  # a write: sent, passed on by the server, handled by the leader, answered


@dataclass
class Constants:
    """As parts of the session timeout, and as rates."""
    wait: Fraction  # on the client's clock: `Timing::wait`
    confirm: Fraction  # on the client's clock: `Timing::confirm`
    lease: Fraction  # on the client's clock: `LeasePolicy::Proved`
    gap: Fraction  # on the leader's clock
    mark: Fraction  # on the leader's clock
    low: Fraction  # the rates of the leader's clock, by the client's
    high: Fraction

    def is_safe(self):
        return (self.gap <= self.low * self.wait and self.mark <= self.low * self.confirm
                and self.high * self.lease <= 1)


# Parts of stories.
END, ELECT = "decide to end the session, end the session", "elect another leader"
ANSWER = "send the touch, note the touch, answer the touch"
SECOND = "send W2, pass W2 on, handle W2, answer W2"
THIRD = "send W3, handle W3, answer W3"
AT_ONCE = f"{ANSWER}, send W1, handle W1, answer W1, {SECOND}, {END}"  # no ping is behind the note
TOLD_LATE = f"{ANSWER}, send W1, ping, handle W1, answer the ping, answer W1"
PROVED = f"{TOLD_LATE}, tell the leader, {SECOND}"

WAIT, LEASE = Fraction(1, 3), Fraction(7, 8)
PING = Fraction(1, 4)  # half a tick, where a session has two ticks or more
CONFIRM, MARK = Fraction(1, 6), Fraction(1, 8)
SHIPPED = Constants(WAIT, CONFIRM, LEASE, PING, MARK, low=PING / WAIT, high=1 / LEASE)


class Clocks:
    """How time passes, with constants of any value, or with these."""

    def __init__(self, constants):
        names = ["wait", "confirm", "lease", "gap", "mark", "low", "high"]
        self.fixed = {} if constants else {name: "-> Real" for name in names}
        self.of = lambda s, name: RealVal(str(getattr(constants, name))) if constants else getattr(s, name)
        self.facts = {} if constants else {
            "rates": lambda s: And(0 < s.low, s.low <= s.high, 0 <= s.wait, 0 <= s.confirm, 0 <= s.lease),
            "a ping falls into the wait": lambda s: s.gap <= s.low * s.wait,
            "the mark comes before the write that confirms": lambda s: s.mark <= s.low * s.confirm,
            "the lease ends before the session": lambda s: s.high * s.lease <= 1,
        }

    def between(self, s, client, leader):
        return And(client >= 0, self.of(s, "low") * client <= leader, leader <= self.of(s, "high") * client)

    def passes(self, s, client, leader):
        return Rule({"the clocks run": self.between(s, client, leader)}, {
            "client": s.client + client, "leader": s.leader + leader})

    def since(self, s, client, leader):
        return self.between(s, s.client - client, s.leader - leader)

    def is_former_valid(self, s):
        return s.client < s.former + self.of(s, "lease")


def begin(clocks):
    """A former lease counts from some time ago, or has ended long ago."""
    return lambda s: And(
        s.touch == NOT_SENT, s.ping == NONE, s.w1 == WAITING, s.w2 == WAITING, s.w3 == WAITING, s.client == 0, s.leader == 0,
        s.pinged <= 0, clocks.since(s, s.former, s.former_l), s.former_l + 1 <= s.until, s.until <= 1, Not(s.decided),
        Not(s.ended), Not(s.deposed), Not(s.proved), Not(s.behind1), Not(s.behind2), Not(s.doubted))


def send(s):
    return Rule({"not sent": s.touch == NOT_SENT}, {"touch": SENT, "sent": s.client, "sent_l": s.leader})


def note(s):
    """The server notes the session. To resume or to make one, it asks the leader, who has the rest
    in one step."""
    is_told = Or(s.way == NEW, And(s.way != TOUCH, Not(s.deposed)))
    return Rule({
        "sent": s.touch == SENT,
        "the leader knows the session": Implies(s.way != TOUCH, Not(s.ended)),
        "a new session is committed": Implies(s.way == NEW, Not(s.deposed)),
    }, {
        "touch": NOTED, "noted_l": s.leader,
        "until": If(And(is_told, Or(s.way == NEW, Not(s.decided))), s.leader + 1, s.until),
        "decided": And(s.decided, s.way != NEW), "ping": If(is_told, TOLD, s.ping)})


def answer(clocks):
    def step(s):
        is_in_time = clocks.is_former_valid(s)
        return Rule({"noted": s.touch == NOTED}, {
            "touch": ANSWERED, "answered": s.client, "answered_l": s.leader,
            # A session that was resumed needs one write, and a new one none. Behind the end of the former lease, the
            # handshake is a proof in doubt.
            "w1": If(s.way >= RESUME, DONE, s.w1), "proved": Or(s.proved, s.way == NEW), "from_": If(s.way == NEW, s.sent, s.from_),
            "at": s.client, "at_l": s.leader, "doubted": And(s.way == RESUME, Not(is_in_time))})
    return step


def send_ping(s):
    """The leader pings its servers. Only the first ping behind the note is followed."""
    is_noted = Or(s.touch == NOTED, s.touch == ANSWERED)
    return Rule({}, {"pinged": s.leader, "ping": If(And(s.ping == NONE, is_noted), DOWN, s.ping)})


def answer_ping(s):
    return Rule({"the server has the ping": s.ping == DOWN}, {"ping": UP})


def tell(s):
    """The leader has the answer. Only a leader in office decides over the session."""
    return Rule({"the leader has the answer": s.ping == UP}, {
        "ping": TOLD, "until": If(Or(s.deposed, s.decided), s.until, s.leader + 1)})


def tell_more(s):
    """Of other requests of the session."""
    return Rule({"in office": And(Not(s.deposed), Not(s.decided))}, {"until": s.leader + 1})


def elect(s):
    """Another leader begins. From now on `leader` is its clock. What the former one had decided and not marked is void."""
    return Rule({"in office": Not(s.deposed)}, {
        "deposed": True, "until": If(s.ended, s.until, s.leader + 1), "decided": s.ended})


def decide(s):
    return Rule({"the timeout has passed": s.leader >= s.until, "once": Not(s.decided)}, {
        "decided": True, "decided_l": s.leader})


def end(s):
    return Rule({"decided": s.decided}, {"ended": True})


def is_accepted(clocks, s):
    """A leader accepts writes of a session that is not marked, which takes a while once it has decided."""
    return And(Not(s.ended), Or(Not(s.decided), s.leader < s.decided_l + clocks.of(s, "mark")))


def send1(clocks):
    def step(s):
        return Rule({
            "once": And(s.touch == ANSWERED, s.w1 == WAITING),
            "the wait": s.client >= s.answered + clocks.of(s, "wait"),
        }, {"w1": ASKED})
    return step


def handle1(clocks):
    """Of a `sync`: a leader without a majority answers it."""
    def step(s):
        return Rule({
            "sent": s.w1 == ASKED,
            "the leader has pinged lately": s.pinged > s.leader - clocks.of(s, "gap"),
        }, {"w1": HANDLED, "behind1": s.ping == DOWN})
    return step


def answer1(s):
    return Rule({"handled": s.w1 == HANDLED, "behind the ping": Not(And(s.behind1, s.ping == DOWN))}, {"w1": DONE})


def send2(s):
    return Rule({"once": And(s.w2 == WAITING, Not(s.doubted)), "behind the answer to W1": s.w1 == DONE, "the touch was answered": s.touch == ANSWERED},
                {"w2": ASKED})


def pass2(s):
    return Rule({"sent": s.w2 == ASKED}, {"w2": PASSED, "behind2": s.ping == UP})


def handle2(clocks):
    def step(s):
        return Rule({
            "sent": s.w2 == PASSED, "a majority has it": Not(s.deposed), "the session lives": is_accepted(clocks, s),
            "behind the answer to the ping": Not(And(s.behind2, s.ping == UP)),
        }, {"w2": HANDLED, "handled_l": s.leader})
    return step


def answer2(clocks):
    """It counts at once if the former lease has not ended."""
    def step(s):
        is_in_time = clocks.is_former_valid(s)
        return Rule({"handled": s.w2 == HANDLED}, {
            "w2": DONE, "proved": Or(s.proved, is_in_time), "from_": s.sent, "doubted": Not(is_in_time), "at": s.client, "at_l": s.leader})
    return step


def send3(clocks):
    def step(s):
        return Rule({
            "once": And(s.w3 == WAITING, s.doubted),
            "long enough behind the proof": s.client >= s.at + clocks.of(s, "confirm"),
        }, {"w3": ASKED})
    return step


def handle3(clocks):
    def step(s):
        return Rule({"sent": s.w3 == ASKED, "a majority has it": Not(s.deposed), "the session lives": is_accepted(clocks, s)},
                    {"w3": HANDLED})
    return step


def answer3(s):
    return Rule({"handled": s.w3 == HANDLED}, {"w3": DONE, "proved": True, "from_": s.sent})


def lease(constants=None):
    """The lease, with constants of any value that keep the bounds, or with these."""
    clocks = Clocks(constants)
    is_valid = lambda s: Or(clocks.is_former_valid(s), And(s.proved, s.client < s.from_ + clocks.of(s, "lease")))
    return System(
        name="lease",
        sorts={},
        fixed={"way": "-> Int"} | clocks.fixed,
        facts={"one of four": lambda s: And(TOUCH <= s.way, s.way <= NEW)} | clocks.facts,
        variables={
            "client": "Real", "leader": "Real",  # clocks
            "touch": "Int", "sent": "Real", "answered": "Real",
            "sent_l": "Real", "noted_l": "Real", "answered_l": "Real",  # the same by the leader's clock, for the proof alone
            "ping": "Int", "pinged": "Real", "until": "Real", "decided": "Bool", "decided_l": "Real", "ended": "Bool",
            "deposed": "Bool", "w1": "Int", "w2": "Int", "w3": "Int", "behind1": "Bool", "behind2": "Bool", "handled_l": "Real",
            "former": "Real", "former_l": "Real",  # from when the former lease counts, by both clocks
            "proved": "Bool", "from_": "Real", "doubted": "Bool", "at": "Real", "at_l": "Real",
        },
        begin=begin(clocks),
        passing=("Real Real", clocks.passes),
        steps={name: ("", rule) for name, rule in {
            "send the touch": send, "note the touch": note, "answer the touch": answer(clocks), "ping": send_ping,
            "answer the ping": answer_ping, "tell the leader": tell, "tell the leader more": tell_more,
            "elect another leader": elect, "decide to end the session": decide, "end the session": end, "send W1": send1(clocks),
            "handle W1": handle1(clocks),
            "answer W1": answer1, "send W2": send2, "pass W2 on": pass2, "handle W2": handle2(clocks),
            "answer W2": answer2(clocks), "send W3": send3(clocks), "handle W3": handle3(clocks), "answer W3": answer3,
            "wait": lambda s: Rule({}, {})}.items()},
        invariants={
            "phases": lambda s: And(
                NOT_SENT <= s.touch, s.touch <= ANSWERED, NONE <= s.ping, s.ping <= TOLD, WAITING <= s.w1, s.w1 <= DONE,
                s.w1 != PASSED, WAITING <= s.w2, s.w2 <= DONE, WAITING <= s.w3, s.w3 <= DONE, s.w3 != PASSED, s.pinged <= s.leader,
                Implies(s.touch < NOTED, And(s.ping == NONE, s.w1 == WAITING)), Implies(s.touch < ANSWERED, s.w1 == WAITING),
                Implies(s.w1 != DONE, s.w2 == WAITING), Implies(s.touch < ANSWERED, Not(s.proved)), Implies(s.ended, s.decided),
                Implies(s.w3 != WAITING, s.doubted), Implies(s.doubted, If(s.way == RESUME, Or(s.w2 == WAITING, s.w2 == DONE), s.w2 == DONE)),
                Implies(s.doubted, s.touch == ANSWERED), Implies(s.w2 == DONE, Or(s.proved, s.doubted))),
            "clocks": lambda s: And(
                clocks.since(s, s.former, s.former_l),
                Implies(s.touch >= SENT, clocks.since(s, s.sent, s.sent_l)),
                Implies(s.touch == ANSWERED, clocks.since(s, s.answered, s.answered_l)),
                Implies(s.touch >= NOTED, And(s.sent_l <= s.noted_l, s.noted_l <= s.leader)),
                Implies(s.touch == ANSWERED, s.noted_l <= s.answered_l),
                Implies(s.doubted, clocks.since(s, s.at, s.at_l))),
            "no ping is behind the note": lambda s: Implies(And(s.touch >= NOTED, s.ping == NONE), s.pinged <= s.noted_l),
            "the wait is over": lambda s: Implies(
                And(s.way <= DIRECT, s.w1 >= ASKED), s.leader >= s.answered_l + clocks.of(s, "low") * clocks.of(s, "wait")),
            "a ping is under way when W1 is handled": lambda s: Implies(And(s.way == TOUCH, s.w1 >= HANDLED), And(
                s.ping != NONE, Or(s.behind1, s.ping != DOWN))),
            "the server has the ping when W1 is answered": lambda s: Implies(And(s.way == TOUCH, s.w1 == DONE), s.ping >= UP),
            "whom the leader hears itself it knows": lambda s: Implies(
                And(s.way != TOUCH, s.touch >= NOTED), Or(s.ping == TOLD, s.deposed)),
            "the answer is ahead of W2": lambda s: Implies(s.w2 >= PASSED, Or(s.behind2, s.ping == TOLD, s.deposed)),
            "the former lease counts": lambda s: s.until >= s.former_l + 1,
            "a decision": lambda s: Implies(s.decided, And(s.until <= s.decided_l, s.decided_l <= s.leader)),
            "who was told counts": lambda s: Implies(s.ping == TOLD, Or(
                s.until >= s.sent_l + 1, s.decided, And(s.way != NEW, s.deposed, s.w2 < HANDLED, s.w3 < HANDLED))),
            "who resumed was told before": lambda s: Implies(
                And(s.way == RESUME, s.touch == ANSWERED, s.decided, s.until < s.sent_l + 1),
                Or(s.decided_l <= s.answered_l, s.deposed)),
            "what is handled counts, or was decided upon before": lambda s: Implies(
                s.w2 == HANDLED, And(s.handled_l <= s.leader, Or(
                    s.until >= s.sent_l + 1, And(s.decided, s.decided_l <= s.handled_l)))),
            "a proof in doubt counts, or was decided upon before": lambda s: Implies(
                s.doubted, Or(s.until >= s.sent_l + 1, And(s.decided, s.decided_l <= s.at_l), And(
                    s.way == RESUME, s.deposed, s.w2 == WAITING, s.w3 < HANDLED))),
            "the wait for the mark is over": lambda s: Implies(
                s.w3 >= ASKED, s.leader >= s.at_l + clocks.of(s, "low") * clocks.of(s, "confirm")),
            "what is confirmed counts": lambda s: Implies(
                Or(s.w3 >= HANDLED, s.proved, And(s.way == NEW, s.touch >= NOTED)), s.until >= s.sent_l + 1),
            "a proof": lambda s: Implies(s.proved, And(s.from_ == s.sent, Or(s.w2 == DONE, s.w3 == DONE, s.way == NEW))),
        },
        promises={
            "P2: while the lease is valid, the session has not ended": lambda s: Not(And(is_valid(s), s.ended)),
        },
        reached={
            "a lease is proved by two requests": Shown(
                lambda s: And(s.way == TOUCH, s.proved, is_valid(s)), f"{PROVED}, tell the leader more, wait"),
            "a lease is proved at the leader itself": Shown(
                lambda s: And(s.way == DIRECT, s.proved, is_valid(s)),
                f"{ANSWER}, send W1, ping, handle W1, answer W1, {SECOND}"),
            "a session that is resumed in time is proved by one write": Shown(
                lambda s: And(s.way == RESUME, s.proved, s.w3 == WAITING, is_valid(s)), f"{ANSWER}, {SECOND}"),
            "a lease that has ended is proved by a third write": Shown(
                lambda s: And(s.way == TOUCH, s.doubted, s.proved, is_valid(s)), f"{PROVED}, {THIRD}"),
            "a session that is resumed late is proved by a later write": Shown(
                lambda s: And(s.way == RESUME, s.doubted, s.proved, is_valid(s)), f"{ANSWER}, {THIRD}"),
            "a lease is proved by its new session": Shown(lambda s: And(s.way == NEW, s.proved, is_valid(s)), ANSWER),
            "another leader ends a session that was proved": Shown(
                lambda s: And(s.way == TOUCH, s.proved, s.ended), f"{PROVED}, {ELECT}, {END}"),
            "a touch comes between the two steps of an end": Shown(
                lambda s: And(s.way == TOUCH, s.ping == TOLD, s.ended),
                f"{TOLD_LATE}, decide to end the session, tell the leader, end the session"),
        },
    )


SYSTEM, ANY = lease(SHIPPED), lease()
(VALID,) = SYSTEM.promises
MAJORITY, A_LITTLE = "a majority has it", Fraction(1, 1000)


def with_constants(**constants):
    """Constants that do not keep the bounds."""
    changed = replace(SHIPPED, **constants)
    assert not changed.is_safe()
    return lease(changed)


def change_the_leader(s):
    """The server follows the new leader, and keeps its connections."""
    return Rule({"another leader is in office": s.deposed}, {"deposed": False, "ping": If(s.ping == NONE, s.ping, TOLD)})


WEAKER = [
    Weaker("each answer extends the lease", weaker(
        SYSTEM, "answer the touch", changes={"proved": lambda s: True, "from_": lambda s: s.sent}), VALID, f"{ANSWER}, {END}"),
    Weaker("one write is enough", weaker(
        SYSTEM, "answer W1", changes={"proved": lambda s: True, "from_": lambda s: s.sent}), VALID, f"{TOLD_LATE}, {END}",
        faults=["one answered write is enough for a proof"]),
    Weaker("W2 is sent before the answer to W1", weaker(
        SYSTEM, "send W2", needs={"behind the answer to W1": lambda s: s.w1 >= ASKED}), VALID,
        f"{ANSWER}, send W1, send W2, pass W2 on, ping, handle W1, handle W2, answer the ping, answer W1, answer W2, {END}",
        faults=["a second write need not wait for the answer to the first"]),
    Weaker("no wait before W1", with_constants(wait=Fraction(0)), VALID, AT_ONCE,
           faults=["a first write need not wait for a ping of the leader"]),
    Weaker("the lease counts from the answer", weaker(SYSTEM, "answer W2", changes={"from_": lambda s: s.answered}), VALID,
           "send the touch, note the touch, ping, answer the ping, tell the leader, answer the touch, send W1, ping, handle W1, "
           f"answer W1, {SECOND}, {END}", faults=["the lease counts from the reply, not from the request"]),
    Weaker("two syncs", without(SYSTEM, "handle W2", MAJORITY), VALID, f"{ELECT}, {PROVED}, {END}",
           faults=["two syncs are enough for a proof"]),
    Weaker("a proof behind the end of the lease counts at once", weaker(
        SYSTEM, "answer W2", changes={"proved": lambda s: True}), VALID,
        f"{TOLD_LATE}, decide to end the session, tell the leader, {SECOND}, end the session",
        faults=["a proof behind the end of a lease counts at once"]),
    Weaker("a session that is resumed late is proved by one write", weaker(weaker(
        SYSTEM, "answer the touch", changes={"doubted": lambda s: False}), "answer W2", changes={"proved": lambda s: True}), VALID,
        f"decide to end the session, {ANSWER}, {SECOND}, end the session",
        faults=["a session that is resumed late is proved by its first write",
                "the lease of who goes on with a session counts from the handshake"]),
    Weaker("a write that confirms a proof is sent at once", weaker(
        SYSTEM, "send W3", needs={"long enough behind the proof": None}), VALID,
        f"decide to end the session, {ANSWER}, {THIRD}, end the session",
        faults=["a proof in doubt is confirmed at once"]),
    Weaker("the leader takes a little longer to mark a session than the bound", with_constants(mark=SHIPPED.mark + A_LITTLE), VALID,
           f"decide to end the session, {ANSWER}, {THIRD}, end the session"),
    Weaker("a leader accepts writes of a session that it has marked", weaker(
        SYSTEM, "handle W3", needs={"the session lives": None}), VALID,
        f"decide to end the session, {ANSWER}, {THIRD}, end the session"),
    Weaker("the margin of a sixteenth, and a client's clock that chrony slows by a twelfth", with_constants(
        lease=Fraction(15, 16), high=Fraction(12, 11)), VALID, f"{ANSWER}, {END}"),
    Weaker("W1 is refused by the server itself", weaker(
        SYSTEM, "answer W1", needs={"handled": lambda s: s.w1 == ASKED}), VALID,
        f"{ANSWER}, send W1, answer W1, {SECOND}, {END}"),
    Weaker("a resumed session needs no write", weaker(
        SYSTEM, "answer the touch", changes={"proved": lambda s: s.way >= RESUME, "from_": lambda s: s.sent}), VALID,
        f"{ELECT}, {ANSWER}, {END}"),
    Weaker("no margin for clocks", with_constants(lease=Fraction(1)), VALID, f"{ANSWER}, {END}"),
    Weaker("the leader's clock is a little slower than the bound", with_constants(low=SHIPPED.low - A_LITTLE), VALID, AT_ONCE),
    Weaker("the leader's clock is a little faster than the bound", with_constants(high=SHIPPED.high + A_LITTLE), VALID,
           f"{ANSWER}, {END}"),
    Weaker("pings a little rarer than the bound", with_constants(gap=SHIPPED.gap + A_LITTLE), VALID, AT_ONCE),
    Weaker("pings as rare as the wait, and a leader's clock that is slower by 3 %", with_constants(
        gap=WAIT, low=Fraction(97, 100)), VALID, AT_ONCE),
    Weaker("a leader that handles writes and does not ping", without(SYSTEM, "handle W1", "the leader has pinged lately"), VALID,
           AT_ONCE),
    Weaker("a link loses its order, from the leader (F4)", without(SYSTEM, "answer W1", "behind the ping"), VALID,
           f"{ANSWER}, send W1, ping, handle W1, answer W1, {SECOND}, {END}"),
    Weaker("a link loses its order, to the leader (F4)", without(SYSTEM, "handle W2", "behind the answer to the ping"), VALID,
           f"{TOLD_LATE}, {SECOND}, {END}"),
    Weaker("a leader ends sessions early (F1)", weaker(
        SYSTEM, "decide to end the session", needs={"the timeout has passed": lambda s: s.leader >= s.until - RealVal("1/8")}), VALID,
        f"{ANSWER}, {END}"),
    Weaker("a server answers pings without its sessions (F2)", weaker(
        SYSTEM, "tell the leader", changes={"until": None}), VALID, f"{PROVED}, {END}"),
    Weaker("a new leader gives a session no time (F6)", weaker(
        SYSTEM, "elect another leader", changes={"until": lambda s: s.leader}), VALID, f"{ANSWER}, {ELECT}, {END}"),
    Weaker("a write is answered without a majority (F7)", without(SYSTEM, "handle W2", MAJORITY), VALID,
           f"{ELECT}, {ANSWER}, {SECOND}, {END}"),
    Weaker("a server makes sessions by itself (localSessionsEnabled)", weaker(
        SYSTEM, "note the touch", changes={"until": None}), VALID, f"{ANSWER}, {END}"),
    Weaker("a server keeps its connections and changes its leader (F8)", with_step(
        SYSTEM, "change the leader", "", change_the_leader), VALID, f"{ELECT}, {ANSWER}, change the leader, {SECOND}, {END}"),
]

# How pings and the leader's clock trade: for each of these rates, the longest gap is the rate times the wait.
RATES = [Fraction(1), Fraction(12, 13), Fraction(11, 13), Fraction(4, 5), SHIPPED.low]
WEAKER += [
    Weaker(f"where the leader's clock may run at {float(rate):.2f}, pings a little rarer than that allows", with_constants(
        low=rate, gap=rate * WAIT + A_LITTLE), VALID, AT_ONCE) for rate in RATES]


def bounds():
    """The bounds in words and numbers."""
    yield f"A client waits {WAIT} T on its clock, and relies on a proved touch for {LEASE} T. T is the session timeout."
    yield "That is safe for any constants with: gap <= low * wait, mark <= low * confirm, and high * lease <= T. Each bound is tight."
    slow = f"by up to {float(1 - LEASE):.2%}, however the leader pings: high is {float(SHIPPED.high):.4f}."
    yield f"  The client's clock may be slow: {slow}"
    yield f"  One clock that is slewed by a twelfth: high is {1 / Fraction(11, 12)}, so a lease of 11/12 T or less is safe."
    yield f"  Both clocks, against each other: high is {Fraction(13, 12) / Fraction(11, 12)}, so only one of 11/13 T or less is."
    yield "  It may be fast, the less the rarer the leader pings. The gap: how long ago it has pinged when it handles a write."
    yield "  the leader's clock, by the client's   the client's is fast by   longest gap   at T = 10 s"
    for rate in RATES:
        gap = rate * WAIT
        half_a_tick = "   half a tick, where T is two ticks" if gap == PING else ""
        yield f"  {float(rate):34.4f}   {float(1 / rate - 1):20.1%}   {float(gap):9.4f} T   {float(10 * gap):8.2f} s{half_a_tick}"
