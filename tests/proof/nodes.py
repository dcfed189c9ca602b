"""Nodes in the order of writes, and leases: what the systems have in common.

Time is the number of writes. A server shows a prefix of them, which is a time, too. `born` and
`died` are times, and 0 is "not yet".

A session ends no sooner than its lease: `lease` proves that. Here it is one condition of the step
that ends a session.

Not here: any rule of a lock.
"""

from z3 import And, Not, Or

from kit import Rule, put


def lives(s, node):
    return And(s.born(node) > 0, s.died(node) == 0)


def there(s, node, view):
    """The node is in this prefix of the writes."""
    return And(0 < s.born(node), s.born(node) <= view, Or(s.died(node) == 0, s.died(node) > view))


def times(s, sort):
    return And(s.now >= 0, s.all(sort, lambda n: And(0 <= s.born(n), s.born(n) <= s.now, s.died(n) <= s.now, Or(
        s.died(n) == 0, And(0 < s.born(n), s.born(n) < s.died(n))))))


def lose_lease(s, session):
    """The client has proved nothing for long enough."""
    return Rule({"it was valid": s.valid(session)}, {"valid": put(s.valid, session, False)})


def renew_lease(s, session):
    return Rule({"the session lives": Not(s.over(session))}, {"valid": put(s.valid, session, True)})
