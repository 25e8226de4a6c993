#!/usr/bin/env python3
"""Registered processes: whom a change of an index's state waits for.

A writer registers by a row, reads the state, and acts upon it for CACHE ticks; what it sends takes effect within REQUEST ticks. Where half
a HEARTBEAT or more has passed since it sent its row last, it writes the row again before it reads. It may stand still at any moment.
A builder changes the state, step by step: after each change it waits for the longest time of those who are registered, and not for
who has no row. It forgets a row that it has seen unchanged for LIFETIME. No effect may rest on a state that is two steps back.

In a variant both are one process, and the builder waits for what the process has under way instead of durations (`alone`).

Their clocks run alike. Run it: `python3 docs/model/processes.py`.
"""

import sys
from collections import namedtuple

CACHE, REQUEST, HEARTBEAT = 2, 1, 4
LIFETIME = HEARTBEAT + CACHE + REQUEST
LAST = 3  # changes of the state
OLD = LIFETIME + 1  # what is older is not told apart

# Times are ages in ticks; `None` is nothing of the kind. The row: absent, as the builder has `watched` it, or `other`. The writer: how
# long ago it sent its row and asked for the state, the state that it has read, what it has sent and for how long, what it is at. The builder:
# the state, how long ago it changed and was waited for, and for how long the row has been watched.
World = namedtuple("World", "row sent asked read flying flew at state changed settled watched")

START = World("absent", None, None, None, None, None, "idle", 0, None, True, None)


def older(age):
    return None if age is None else min(age + 1, OLD)


def steps(w, broken):
    """Every next world, with what is done."""
    # Time passes, also while a process stands still; what was sent has taken effect by its end.
    if w.flying is None or w.flew < REQUEST:
        yield "a tick", w._replace(
            sent=older(w.sent), asked=older(w.asked), flew=older(w.flew), changed=older(w.changed), watched=older(w.watched)
        )

    # The writer.
    if w.flying is not None:
        yield "a write takes effect", w._replace(flying=None, flew=None)
    if w.at == "idle":
        registered = w.sent is not None and w.sent < HEARTBEAT // 2
        if registered or (broken == "unregistered" and w.sent is not None):
            # The moment of asking counts, not that of the answer.
            yield "ask", w._replace(at="asking", asked=0, read=None)
        elif broken == "afterwards":
            yield "ask", w._replace(at="asking", asked=0, read=None)
        else:
            yield "send the row", w._replace(at="registering", sent=0)
    elif w.at == "registering":
        if w.sent <= REQUEST:
            yield "the row is written", w._replace(at="idle", row="other", watched=None)
        else:
            # Nobody knows what became of it: it counts as not written.
            yield "the row is lost", w._replace(at="idle", sent=None)
    elif w.at == "asking":
        if w.asked <= REQUEST:
            yield "the state is read", w._replace(at="acting", read=w.state)
        else:
            yield "the answer is lost", w._replace(at="idle", asked=None)
    elif w.at == "acting":
        if broken == "afterwards" and (w.sent is None or w.sent >= HEARTBEAT // 2):
            yield "the row is written", w._replace(row="other", watched=None, sent=0)
        if (w.asked < CACHE or broken == "stale") and w.flying is None:
            yield "write", w._replace(flying=w.read, flew=0)
        if w.asked >= CACHE or broken in ("alone", "given up"):
            yield "go on", w._replace(at="idle", read=None, asked=None)

    # The builder: it watches the row, changes the state, and waits.
    if w.row == "other":
        yield "watch the row", w._replace(row="watched", watched=0)
    elif w.row == "watched" and w.watched >= {"early": HEARTBEAT // 2, "at once": 0}.get(broken, LIFETIME):
        yield "forget the row", w._replace(row="absent", watched=None)
    if w.settled and w.state < LAST:
        yield "change the state", w._replace(state=w.state + 1, changed=0, settled=False)
    if not w.settled:
        # The manifest is read when the wait is over: who is registered then is waited for.
        waits = w.row != "absent" and broken != "ignored"
        # In one process the writer is told of a change, and reads the state again unless it is at a write.
        told = w.at == "idle" or w.read == w.state
        answered = w.flying in (None, w.state) or broken == "given up"
        if broken in ("alone", "given up"):
            if told and answered:
                yield "go on", w._replace(settled=True)
        elif not waits or w.changed >= CACHE + (0 if broken == "no request" else REQUEST):
            yield "go on", w._replace(settled=True)


def wrong(before, what):
    """What must not happen: an effect that rests on a state two steps back."""
    return what == "a write takes effect" and before.flying < before.state - 1


def run(broken=None):
    seen, stack, count = {START}, [(START, None)], 0
    while stack:
        world, path = stack.pop()
        count += 1
        for what, after in steps(world, broken):
            if wrong(world, what):
                trail = [what]
                while path:
                    trail.append(path[0])
                    path = path[1]
                return count, trail[::-1]
            if after not in seen:
                seen.add(after)
                stack.append((after, (what, path)))
    return count, None


# Each leaves out one rule: who is registered no more writes the row before it asks; and writes it before, not after; a builder waits for who
# is registered; a row is watched for its lifetime, not for what the writer counts by; nor for nothing; what was read too long ago
# is not acted upon; a wait lasts as long as requests do, too.
# `given up` is `alone` where a request that its process gave up, and that may take effect still, counts as done.
RIGHT = [None, "alone"]
VARIANTS = ["given up", "unregistered", "afterwards", "ignored", "early", "at once", "stale", "no request"]


def main():
    failed = False
    for kind in RIGHT:
        count, trail = run(kind)
        print(f"{kind or 'the protocol'}: {count} states, {'right' if trail is None else 'WRONG'}")
        if trail:
            print("\n".join(trail))
            failed = True
    for broken in VARIANTS:
        count, trail = run(broken)
        failed |= trail is None
        found = "nothing is found" if trail is None else f"violated after {len(trail)} steps"
        print(f"{broken}: {count} states, {found}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
