#!/usr/bin/env python3
"""A change feed that is turned on while programs write.

Two writers write entities of one partition. A write is one group: the entity, a change row under the next number, and the counter. A writer
emits a change if the state of the feed that it knows is at least *write-only*. It remembers the counter of its last group, with its version;
its group inserts the change row and replaces the counter in that version. The answer of a group may be lost: the writer then reads the
counter again. A third writer knows no manifest, and writes entities alone. A builder sets the states *delete-only*, *write-only* and
*readable*, and waits as for an index (`processes.py`): no writer acts on a state that is two steps old, and the third writer has stopped
before *write-only*. A trim deletes the oldest change.

Violations: a write takes effect without a change after the feed is *readable*; a number is given twice, or left out.

Run it: `python3 docs/model/feed.py`.
"""

import sys
from collections import namedtuple

DELETE_ONLY, WRITE_ONLY, READABLE = range(3)
WRITES = 2  # of each writer

#   known    the state by which the writer acts
#   counter  the number and the version that it remembers; `None`: it must read them
#   left     the writes that it still does
#   flying   the group that was sent: whether it emits, and the counter from which it was made
Writer = namedtuple("Writer", "known counter left flying")
#   state    the state of the feed
#   next     the number of the next change, and the version of the counter
#   rows     the numbers of the change rows that are stored
#   given    all numbers that were given, in order
#   plain    the writes that the writer without a manifest still does
#   silent   whether a write took effect without a change while the feed was readable
World = namedtuple("World", "state next version rows given writers plain silent")

START = World(DELETE_ONLY, 1, 0, (), (), (Writer(DELETE_ONLY, None, WRITES, None),) * 2, 1, False)


def with_writer(w, n, writer, **changed):
    writers = tuple(writer if n == m else other for m, other in enumerate(w.writers))
    return w._replace(writers=writers, **changed)


def landed(w, emits, number, version, broken):
    """The world after a group has taken effect; `None` if the store refuses it."""
    if not emits:
        return w._replace(silent=w.silent or w.state == READABLE)
    is_conditional = broken != "any counter"
    if number in w.rows or (is_conditional and version != w.version):
        return None
    return w._replace(next=number + 1, version=w.version + 1, rows=w.rows + (number,), given=w.given + (number,))


def steps(w, broken):
    """Every next world, with the name of the step."""
    for n, writer in enumerate(w.writers):
        if writer.flying is None:
            if writer.known < w.state:
                yield "know the state", with_writer(w, n, writer._replace(known=w.state))
            emits = writer.known >= WRITE_ONLY
            if emits and writer.counter is None:
                yield "read the counter", with_writer(w, n, writer._replace(counter=(w.next, w.version)))
            elif writer.left:
                flying = (emits, *(writer.counter or (0, 0)))
                yield "send", with_writer(w, n, writer._replace(flying=flying, counter=None, left=writer.left - 1))
            continue
        emits, number, version = writer.flying
        after = landed(w, emits, number, version, broken)
        forgot = writer._replace(flying=None)
        if after is None:
            yield "refused", with_writer(w, n, forgot._replace(left=writer.left + 1))
            continue
        remembered = (number + 1, after.version) if emits else None
        yield "took effect", with_writer(after, n, forgot._replace(counter=remembered))
        yield "took effect, the answer is lost", with_writer(after, n, forgot)
        yield "lost", with_writer(w, n, forgot)

    if w.plain and (w.state == DELETE_ONLY or broken == "plain writers"):
        yield "a write of the row alone", landed(w, False, 0, 0, broken)._replace(plain=w.plain - 1)
    # A request in flight was sent under the state that its writer knows.
    settled = all(writer.known == w.state for writer in w.writers)
    if w.state < READABLE and (settled or broken == "no wait"):
        yield "the next state", w._replace(state=w.state + 1)
    if w.rows:
        yield "trim", w._replace(rows=w.rows[1:])


def violation(w):
    if w.silent:
        return "a write without a change in a readable feed"
    if w.given != tuple(range(1, len(w.given) + 1)):
        return f"the numbers {w.given}"
    return None


def explore(broken):
    seen, open_ = {START}, [START]
    while open_:
        w = open_.pop()
        found = violation(w)
        if found:
            return len(seen), found
        for _, after in steps(w, broken):
            if after not in seen:
                seen.add(after)
                open_.append(after)
    return len(seen), None


def main():
    failed = False
    for broken in (None, "any counter", "no wait", "plain writers"):
        count, found = explore(broken)
        is_expected = (found is None) == (broken is None)
        failed |= not is_expected
        print(f"{broken or 'protocol':14} {count:8} states: {found or 'no violation'}{'' if is_expected else '  UNEXPECTED'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
