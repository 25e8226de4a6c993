#!/usr/bin/env python3
"""Two processes that drop one index: its state goes down to delete-only, then its rows and its manifest row are removed.

A dropper waits until every process knows the state that it has found in the manifest, also if another process has written it. Then it sets
the next lower state, under the version of the row that it has read. *Building* and *readable* ask a writer for no more than *write-only*, so the first step
needs no wait. Before the removal of the rows the dropper also waits for the lease of a builder, unless it has itself found the index readable.

A writer and a reader read the state, and use it for CACHE ticks. A request of the writer takes effect within REQUEST ticks. A builder writes
entries within LEASE ticks of its claim. Violations: a row of the index is left after its manifest row was removed; a write without an
entry takes effect while the reader knows the index as readable.

All clocks have the same rate. Run it: `python3 docs/model/drop.py`.
"""

import sys
from collections import namedtuple

CACHE, REQUEST, LEASE = 2, 1, 5
OLD = LEASE + 1  # ages are capped here

ABSENT, DELETE_ONLY, WRITE_ONLY, BUILDING, READABLE = range(5)

#   state    the state in the manifest
#   version  the version of the row of the manifest
#   row      whether a row of the index exists
#   writer   the state that the writer knows and its age, or None
#   flying   the state on which the request in flight is based and its age, or None
#   reader   the state that the reader knows and its age, or None
#   claim    the age of the builder's claim, or None
#   a, b     the droppers
World = namedtuple("World", "state version row writer flying reader claim a b")

#   at       the dropper's step
#   seen     the version of the manifest row that the dropper has read or written
#   state    the state in that version
#   waited   the age of the wait for that state
#   settled  whether the dropper counts the state as known to all
#   below    the time since the index was known not to be building
#   ready    whether the dropper has found the index readable, and has made each step since
Dropper = namedtuple("Dropper", "at seen state waited settled below ready")

IDLE = Dropper("read", -1, ABSENT, 0, False, 0, False)
DONE = IDLE._replace(at="done")


def aged(known, life):
    """What a process knows, one tick later; None at the end of its life."""
    return None if known is None or known[1] + 1 >= life else (known[0], known[1] + 1)


def waits(d):
    """A dropper one tick later."""
    waited = min(d.waited + 1, OLD) if d.at == "wait" else 0
    below = 0 if d.ready or d.at == "done" else min(d.below + 1, OLD)
    return d._replace(waited=waited, below=below)


def tick(w):
    return w._replace(
        writer=aged(w.writer, CACHE),
        flying=None if w.flying is None else (w.flying[0], w.flying[1] + 1),
        reader=aged(w.reader, CACHE),
        claim=None if w.claim is None or w.claim + 1 >= LEASE else w.claim + 1,
        a=waits(w.a),
        b=waits(w.b),
    )


def lower(state):
    return WRITE_ONLY if state > WRITE_ONLY else DELETE_ONLY


def drop(w, d, broken):
    """The next worlds by a step of a dropper, without the new state of the dropper, and that state."""
    if d.at == "read":
        if w.state == ABSENT:
            yield "ends", {}, DONE
            return
        known = d.seen == w.version or broken == "any wait" and d.settled
        if known:
            found = d._replace(at="next", seen=w.version, state=w.state)
        else:
            found = Dropper("next", w.version, w.state, 0, False, 0, w.state == READABLE)
        yield f"finds {w.state}", {}, found
    elif d.at == "next":
        # *Building* and *readable* ask a writer for the same as *write-only*.
        settled = d.settled or d.state > WRITE_ONLY or (broken == "found" and d.state > DELETE_ONLY)
        if settled and d.state > DELETE_ONLY:
            if w.version == d.seen:
                state, below = lower(d.state), 0 if d.state == BUILDING else d.below
                done = Dropper("wait", w.version + 1, state, 0, False, below, d.ready)
                yield f"sets {state}", {"state": state, "version": w.version + 1}, done
            else:
                yield "meets another version", {}, d._replace(at="read")
        elif settled:
            if d.ready or d.below >= LEASE or broken == "no lease":
                yield "begins to remove", {}, d._replace(at="remove")
        else:
            yield "waits", {}, d._replace(at="wait", waited=0)
    elif d.at == "wait":
        if d.waited >= CACHE + REQUEST:
            yield "has waited", {}, d._replace(at="read", settled=True)
    elif d.at == "remove":
        if w.version == d.seen:
            yield "removes the rows", {"row": False}, d._replace(at="unlist")
        else:
            yield "meets another version", {}, d._replace(at="read")
    elif d.at == "unlist":
        if w.version == d.seen:
            yield "removes the manifest row", {"state": ABSENT, "version": w.version + 1}, DONE
        else:
            yield "meets another version", {}, d._replace(at="read")


def steps(w, broken):
    """Every next world, with the name of the step."""
    if w.flying is None or w.flying[1] < REQUEST:
        yield "a tick", tick(w)
    if w.flying is not None:
        known = w.flying[0]
        yield "a write takes effect", w._replace(flying=None, row=w.row or known >= WRITE_ONLY)
    if w.writer is None:
        yield "the writer reads the state", w._replace(writer=(w.state, 0))
    elif w.flying is None:
        yield "the writer sends a write", w._replace(flying=(w.writer[0], 0))
    if w.reader is None and w.state == READABLE:
        yield "the reader reads the state", w._replace(reader=(w.state, 0))
    if w.claim is not None:
        yield "the builder writes an entry", w._replace(row=True)
    for name in "ab":
        for step, changes, after in drop(w, getattr(w, name), broken):
            yield f"{name} {step}", w._replace(**changes, **{name: after})


def violation(before, step, after):
    """What is wrong after a step, if anything is."""
    if step == "a write takes effect" and before.flying[0] < WRITE_ONLY and before.reader is not None:
        return "a lookup misses an entity"
    idle = after.flying is None and after.writer is None and after.claim is None
    if after.state == ABSENT and after.row and idle and all(d.at == "done" for d in (after.a, after.b)):
        return "a row of no index is left"
    return None


# The index as the droppers find it, and what the other processes know by then.
STARTS = {
    "readable": World(READABLE, 0, True, None, None, None, None, IDLE, IDLE),
    "building": World(BUILDING, 0, True, None, None, None, 0, IDLE, IDLE),
    # A builder has just set the state; the writer knows the state before.
    "write-only": World(WRITE_ONLY, 0, False, (DELETE_ONLY, 0), None, None, None, IDLE, IDLE),
    # A process that has died has just set the state.
    "left write-only": World(WRITE_ONLY, 0, True, (READABLE, 0), None, (READABLE, 0), None, IDLE, IDLE),
    "left delete-only": World(DELETE_ONLY, 0, True, (WRITE_ONLY, 0), None, None, LEASE - 4, IDLE, IDLE),
}


def run(start, broken=None):
    seen, stack, count = {start}, [(start, None)], 0
    while stack:
        world, path = stack.pop()
        count += 1
        for step, after in steps(world, broken):
            wrong = violation(world, step, after)
            if wrong:
                trail = [wrong, step]
                while path:
                    trail.append(path[0])
                    path = path[1]
                return count, trail[::-1]
            # The droppers are alike.
            after = after._replace(a=min(after.a, after.b), b=max(after.a, after.b))
            if after not in seen:
                seen.add(after)
                stack.append((after, (step, path)))
    return count, None


# Each variant leaves out one rule.
VARIANTS = [
    "found",  # a dropper waits for the states that it has set, and not for one that it finds
    "any wait",  # the wait for one state counts for the lower state that another dropper has set since
    "no lease",  # a dropper that finds an index below *building* does not wait for a builder
]


def main():
    failed = False
    for name, start in STARTS.items():
        count, trail = run(start)
        print(f"the protocol, {name}: {count} states, {'right' if trail is None else 'WRONG'}")
        if trail:
            print("\n".join(trail))
            failed = True
    for broken in VARIANTS:
        runs = [(name, *run(start, broken)) for name, start in STARTS.items()]
        wrong = [(name, len(trail) - 1) for name, _, trail in runs if trail]
        failed |= not wrong
        found = ", ".join(f"{name} violated after {length} steps" for name, length in wrong) or "nothing is found"
        print(f"{broken}: {sum(count for _, count, _ in runs)} states, {found}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
