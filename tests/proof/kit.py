"""Transition systems: proved by induction for any number of members, and refuted by a shown
history.

A system has sorts (nodes, sessions, ...), functions that never change, variables, a beginning, and
steps. A step has named conditions and says what it changes. A promise is proved with z3 in the
usual way:

- each invariant holds at the beginning;
- each step keeps each invariant, if all of them held before;
- the invariants imply each promise.

The sorts have any number of members in a proof. In a history they have few, and every quantifier is
written out. The steps of a history may be given, as a *story*: then z3 finds only the members, the
values and the times. Without a story it tries all steps.

Not here: any system.
"""

from dataclasses import dataclass, field, replace

from z3 import (And, BitVecSort, BitVecVal, BoolSort, Const, DeclareSort, Exists, ForAll, Function, If, IntSort, IntVal,
                Not, Or, RealSort, Solver, SolverFor, is_bv_value, sat, unsat)

SECONDS = 20  # for one question; the slowest takes less than one
BITS = 5  # of an integer in a history: -16 to 15
GIVEN = object()  # its own story


@dataclass
class Rule:
    """What one step needs, by name, and what it changes."""
    needs: dict
    changes: dict


@dataclass
class Shown:
    """What must be possible: of a state, and the steps to it."""
    claim: callable
    story: str = None


@dataclass
class System:
    """A transition system. Each function takes a state, and the members that its sorts name."""
    name: str
    sorts: dict  # sort: how many members it has in a history
    fixed: dict  # function: its type, such as "Node Node -> Bool"
    variables: dict  # the same
    begin: callable
    steps: dict  # name: (sorts of its parameters, function to a Rule)
    invariants: dict
    promises: dict
    facts: dict = field(default_factory=dict)  # what holds of the fixed functions
    lasting: dict = field(default_factory=dict)  # promises about the states before and after a step
    reached: dict = field(default_factory=dict)  # name: Shown
    passing: tuple = None  # what happens before each step, such as that time passes
    depth: int = 12  # of a history that has no story


def put(function, *place_and_value):
    """The function, with another value at one place."""
    *place, value = place_and_value

    def changed(*at):
        before = function(*at)
        return If(And(*[here == there for here, there in zip(at, place)]), before.sort().cast(value), before)

    return changed


class State:
    """One state: its functions are attributes."""

    def __init__(self, world, functions):
        self.world = world
        self.__dict__.update(functions)

    def literal(self, number):
        """For a choice between two numbers."""
        return BitVecVal(number, BITS) if self.world.is_small else IntVal(number)

    def all(self, sorts, claim):
        return self.world.quantify(ForAll, And, sorts, claim)

    def some(self, sorts, claim):
        return self.world.quantify(Exists, Or, sorts, claim)


class Table:
    """A function of few members: one constant for each."""

    def __init__(self, name, places, value):
        self.cells = {at: Const(f"{name}{at}", value) for at in places}

    def __call__(self, *at):
        keys = tuple(place.as_long() if is_bv_value(place) else None for place in at)
        if None not in keys:
            return self.cells[keys]
        chosen, *others = self.cells.items()
        found = chosen[1]
        for key, cell in others:
            found = If(And(*[place == number for place, number in zip(at, key)]), cell, found)
        return found


class World:
    """The sorts of a system, with any number of members, or with few."""

    def __init__(self, system, is_small):
        self.system, self.is_small, self.fresh = system, is_small, 0
        number = BitVecSort(BITS) if is_small else IntSort()
        self.sorts = {"Bool": BoolSort(), "Int": number, "Real": RealSort()}
        for name in system.sorts:
            self.sorts[name] = number if is_small else DeclareSort(name)
        self.fixed = {name: self.function(name, kind) for name, kind in system.fixed.items()}

    def function(self, name, kind):
        *places, value = kind.replace("->", " ").split()
        value = self.sorts[value]
        if not places:
            return Const(name, value)
        if self.is_small:
            return Table(name, self.each(places), value)
        return Function(name, *[self.sorts[place] for place in places], value)

    def state(self, index):
        named = {name: self.function(f"{name}@{index}", kind) for name, kind in self.system.variables.items()}
        return State(self, self.fixed | named)

    def step(self, state, name):
        """A step from this state: the members that it names, what it needs, and the state after it."""
        members, needs = [], []
        for sorts, rule in filter(None, (self.system.passing, self.system.steps[name])):
            named = self.parameters(sorts.split())
            rule = rule(state, *named)
            members += zip(sorts.split(), named)
            needs += rule.needs.values()
            state = self.after(state, rule.changes)
        return members, needs, state

    def after(self, state, changes):
        """The state after these changes, without names for its functions."""
        unknown = set(changes) - set(self.system.variables)
        assert not unknown, f"{self.system.name}: no variable {unknown}"
        functions = {}
        for name, kind in self.system.variables.items():
            value = changes.get(name, getattr(state, name))
            functions[name] = value if callable(value) else self.sorts[kind.split()[-1]].cast(value)
        return State(self, self.fixed | functions)

    def equal(self, one, other):
        """Two states are the same, written out."""
        for name, kind in self.system.variables.items():
            places = kind.replace("->", " ").split()[:-1]
            here, there = getattr(one, name), getattr(other, name)
            for at in self.members(places):
                yield here(*at) == there(*at) if at else here == there

    def in_range(self, name, value):
        """Only few of a sort's numbers are members."""
        return And(0 <= value, value < self.system.sorts[name]) if name in self.system.sorts else True

    def few(self, state):
        """All values of its functions are members."""
        for name, kind in (self.system.fixed | self.system.variables).items():
            *places, value = kind.replace("->", " ").split()
            function = getattr(state, name)
            for at in self.members(places):
                yield self.in_range(value, function(*at) if at else function)

    def each(self, sorts):
        tuples = [()]
        for sort in sorts:
            tuples = [done + (member,) for done in tuples for member in range(self.system.sorts.get(sort, 2 ** (BITS - 1)))]
        return tuples

    def members(self, sorts):
        return [[BitVecVal(number, BITS) for number in at] for at in self.each(sorts)]

    def quantify(self, quantifier, junction, sorts, claim):
        sorts = sorts.split()
        if self.is_small:
            return junction(*[claim(*at) for at in self.members(sorts)])
        bound = self.parameters(sorts)
        return quantifier(bound, claim(*bound))

    def parameters(self, sorts):
        self.fresh += 1
        return [Const(f"x{self.fresh}.{number}", self.sorts[sort]) for number, sort in enumerate(sorts)]

    def facts(self):
        bare = State(self, self.fixed)
        return [fact(bare) for fact in self.system.facts.values()]


@dataclass
class Obligation:
    """A question to z3, and whether it is answered as it must be."""
    words: str
    is_proved: bool


def ask(words, claims, negated):
    solver = Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(*claims)
    solver.add(Not(negated))
    return Obligation(words, solver.check() == unsat)


def parts(system):
    """What `prove` takes."""
    return ["at the beginning", *system.steps, "promise"]


def prove(system, part):
    """Each obligation of a part of the proof."""
    world = World(system, is_small=False)
    state, facts = world.state(0), world.facts()
    known = facts + [claim(state) for claim in system.invariants.values()]
    if part == "at the beginning":
        for name, claim in system.invariants.items():
            yield ask(f"{part}: {name}", facts + [system.begin(state)], claim(state))
    elif part == "promise":
        for name, claim in system.promises.items():
            yield ask(f"{part}: {name}", known, claim(state))
    else:
        _, needs, after = world.step(state, part)
        for name, claim in system.invariants.items():
            yield ask(f"{part}: {name}", known + needs, claim(after))
        for name, claim in system.lasting.items():
            yield ask(f"{part}: {name}", known + needs, claim(state, after))


def search(system, found, story=None):
    """A history from the beginning to a step for which `found` holds, of the states before and after
    it; `None` if there is none with so few members. With a story it has these steps. Else it is a
    shortest one."""
    world = World(system, is_small=True)
    solver = Solver() if "Real" in system.variables.values() else SolverFor("QF_BV")
    solver.set("timeout", SECONDS * 1000)
    states, taken = [world.state(0)], []
    solver.add(*world.facts(), *world.few(states[0]), system.begin(states[0]))
    story = story and story.split(", ")
    for index in range(len(story) if story else system.depth):
        state, after = states[-1], world.state(index + 1)
        choice, ways = Const(f"step@{index}", BitVecSort(BITS + 1)), []
        for number, name in enumerate([story[index]] if story else system.steps):
            members, needs, then = world.step(state, name)
            ways.append((name, members))
            needs += [world.in_range(sort, member) for sort, member in members]
            solver.add(Or(choice != number, And(*needs, *world.equal(after, then))))
        solver.add(choice >= 0, choice < len(ways))
        states.append(after)
        taken.append((choice, ways))
        if story and index + 1 < len(story):
            continue
        solver.push()
        solver.add(found(state, after))
        if solver.check() == sat:
            return history(solver.model(), taken)
        solver.pop()
    return None


def history(model, taken):
    value = lambda term: model.eval(term, model_completion=True)
    steps = []
    for choice, ways in taken:
        name, members = ways[value(choice).as_long()]
        steps.append((name, [f"{sort} {value(member)}" for sort, member in members]))
    return steps


def weaker(system, step, needs=None, changes=None):
    """The system with another rule for one step: with these conditions in place of those of the same
    name, or without one for which there is `None`; and with other values for these variables, or
    without a change for which there is `None`. Conditions and values are functions, as a rule is."""
    sorts, rule = system.steps[step]

    def weak(state, *members):
        strong = rule(state, *members)
        for name in needs or {}:
            assert name in strong.needs, f"{step} has no condition {name!r}"
        changed = strong.needs | {name: claim and claim(state, *members) for name, claim in (needs or {}).items()}
        others = strong.changes | {name: value and value(state, *members) for name, value in (changes or {}).items()}
        return Rule({name: claim for name, claim in changed.items() if claim is not None},
                    {name: value for name, value in others.items() if value is not None})

    return with_step(system, step, sorts, weak)


def without(system, step, need):
    """The system with one condition of one step left out."""
    return weaker(system, step, needs={need: None})


def with_step(system, step, sorts, rule):
    """The system with a further step, or with another one in its place."""
    return replace(system, steps=system.steps | {step: (sorts, rule)})


@dataclass
class Weaker:
    """A weaker rule: what it leaves out, the promise that it breaks, and how."""
    words: str
    system: System
    promise: str
    story: str = None
    faults: list = field(default_factory=list)  # planted faults of this kind: titles in tests/mutations/mutations.txt

    def refute(self, story=GIVEN):
        """A history that breaks the promise; `None` if there is none."""
        story = self.story if story is GIVEN else story
        if lasting := self.system.lasting.get(self.promise):
            return search(self.system, lambda s, t: Not(lasting(s, t)), story)
        promise = self.system.promises[self.promise]
        return search(self.system, lambda _, t: Not(promise(t)), story)
