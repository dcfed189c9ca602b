"""Proves the promises of the locks for any number of contenders, refutes weaker rules, and prints a
table of it.

    tests/proof/run                 # everything; the status is 1 if anything fails
    tests/proof/run --search ROOM   # the histories of the systems with this word, found without their stories

Not here: what is proved (one file for each system), how (`kit`).
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import z3

import events
import late_creates
import lease
import life
import plain
import planted
import queue_lock
import quiet
import room
import semaphore
import wakeups
from kit import parts, prove, search

MODULES = [queue_lock, events, wakeups, semaphore, room, plain, life, late_creates, lease, quiet]
FAULTS = Path(__file__).resolve().parents[1] / "mutations" / "mutations.txt"


def proved(number, part):
    """The system with constants of any value, where it has some."""
    module = MODULES[number]
    for obligation in prove(getattr(module, "ANY", module.SYSTEM), part):
        yield obligation.is_proved, f"not proved: {obligation.words}"


def shown(number, name):
    system = MODULES[number].SYSTEM
    what = system.reached[name]
    yield search(system, lambda _, state: what.claim(state), what.story) is not None, f"its story does not show: {name}"


def refuted(number, index):
    weaker = MODULES[number].WEAKER[index]
    yield weaker.refute() is not None, f"its story does not break {weaker.promise!r}: {weaker.words}"


def noticed(_, name):
    yield not planted.MISTAKES[name](), f"a planted mistake is not noticed: {name}"


def tasks():
    for number, module in enumerate(MODULES):
        yield from ((proved, number, part) for part in parts(module.SYSTEM))
        yield from ((shown, number, name) for name in module.SYSTEM.reached)
        yield from ((refuted, number, index) for index in range(len(module.WEAKER)))
    yield from ((noticed, len(MODULES), name) for name in planted.MISTAKES)


def run(task):
    check, number, key = task
    begin = time.process_time()
    answers = list(check(number, key))
    return check.__name__, number, answers, time.process_time() - begin


def steps_of(system):
    return {step for what in system.reached.values() for step in what.story.split(", ")}


def planted_faults():
    """The titles of the faults that are planted in the product, and whether the model finds each."""
    for entry in FAULTS.read_text().split("\n## ")[1:]:
        title, *lines = entry.split("\n")
        yield title, any(line.startswith("model ") for line in lines)


def compared_with_the_model():
    """Each fault that the model finds has a weaker rule here."""
    named = {title for module in MODULES for weaker in module.WEAKER for title in weaker.faults}
    faults = dict(planted_faults())
    found = {title for title, is_found in faults.items() if is_found}
    complaints = [f"no weaker rule is for this fault, which the model finds: {title}" for title in sorted(found - named)]
    complaints += [f"no planted fault has this title: {title}" for title in sorted(named - set(faults))]
    print(f"\nOf {len(found)} planted faults that the model finds, {len(found & named)} are refuted here, as weaker rules.")
    return complaints


def table(results):
    complaints = []
    print(f"{'system':24}{'promises':>9}{'obligations':>16}{'stories':>10}{'steps':>10}{'refuted':>11}{'s':>8}")
    totals = [0] * 9
    for number, module in enumerate(MODULES):
        system = module.SYSTEM
        own = [result for result in results if result[1] == number]
        counts = []
        for kind in ("proved", "shown", "refuted"):
            answers = [answer for name, _, answers, _ in own if name == kind for answer in answers]
            counts += [sum(is_right for is_right, _ in answers), len(answers)]
            complaints += [f"{system.name}: {words}" for is_right, words in answers if not is_right]
        taken = len(steps_of(system) & set(system.steps))
        if taken < len(system.steps):
            complaints.append(f"{system.name}: no story takes: {sorted(set(system.steps) - steps_of(system))}")
        row = [len(system.promises) + len(system.lasting), *counts[:4], taken, len(system.steps), *counts[4:]]
        seconds = sum(result[3] for result in own)
        totals = [total + value for total, value in zip(totals, row + [seconds])]
        print(line(system.name, *row, seconds))
    print(line("all", *totals[:9], sum(result[3] for result in results if result[1] < len(MODULES))))
    return complaints


def line(name, promises, proved, obligations, shown, stories, taken, steps, refuted, weaker, seconds):
    pairs = [(proved, obligations, 16), (shown, stories, 10), (taken, steps, 10), (refuted, weaker, 11)]
    counts = "".join(f"{f'{part} of {whole}':>{width}}" for part, whole, width in pairs)
    return f"{name:24}{promises:9}{counts}{seconds:8.1f}"


def find_histories(word):
    """Prints a shortest history for each claim. To find one in real time takes minutes."""
    for module in MODULES:
        system = module.SYSTEM
        if word not in system.name:
            continue
        for name, what in system.reached.items():
            print_history(name, search(system, lambda _, state: what.claim(state)))
        for weaker in module.WEAKER:
            print_history(weaker.words, weaker.refute(story=None))


def print_history(words, history):
    print(f"{words}:\n  {', '.join(step for step, _ in history) if history else 'nothing is found'}")
    for step, members in history or []:
        print(f"    {step:24} {', '.join(members)}")


def main():
    if sys.argv[1:2] == ["--search"] and len(sys.argv) == 3:
        return find_histories(sys.argv[2])
    if sys.argv[1:]:
        sys.exit(__doc__)
    begin = time.monotonic()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(run, tasks()))
    complaints = table(results)
    complaints += compared_with_the_model()
    answers = [answer for name, _, answers, _ in results if name == "noticed" for answer in answers]
    complaints += [words for is_right, words in answers if not is_right]
    count = sum(is_right for is_right, _ in answers)
    print(f"Of {len(answers)} mistakes that are planted in these proofs, {count} are noticed.\n")
    print("\n".join(lease.bounds()))
    print(f"\nz3 {z3.get_version_string()}, {time.monotonic() - begin:.1f} s")
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
