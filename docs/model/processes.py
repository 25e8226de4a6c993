#!/usr/bin/env python3
"""The registered processes for which a change of an index state waits.

A writer registers with a row, reads the state and uses it for CACHE ticks; its requests take effect within REQUEST ticks. If HEARTBEAT/2 or
more has passed since it sent its row, it sends the row again before it reads. It may pause at any step. The builder changes the state step by
step. After each change it waits for the longest durations of the registered writers, and not for a writer without a row. It deletes a row that
it has seen unchanged for LIFETIME. Violation: an effect that is based on a state two steps old.

In the model `alone`, writer and builder are one process, and the builder waits for the requests in flight instead of durations.

All clocks have the same rate. Run it: `python3 docs/model/processes.py`.
"""

import sys
from collections import namedtuple

CACHE, REQUEST, HEARTBEAT = 2, 1, 4
LIFETIME = HEARTBEAT + CACHE + REQUEST
LAST = 3  # changes of the state
OLD = LIFETIME + 1  # ages are capped here

# Times are ages in ticks; `None` means that there was no such event.
#   row      absent, `watched` (as the builder has seen it), or `other`
#   sent     since the writer sent its row
#   asked    since the writer asked for the state
#   read     the state that the writer has read
#   flying   the state on which the request in flight is based
#   flew     since that request was sent
#   at       the writer's step
#   state    the state of the index
#   changed  since the builder changed it
#   settled  whether the builder has finished the wait after the change
#   watched  since the builder has seen the row unchanged
World = namedtuple("World", "row sent asked read flying flew at state changed settled watched")

START = World("absent", None, None, None, None, None, "idle", 0, None, True, None)


def older(age):
    return None if age is None else min(age + 1, OLD)


def steps(w, broken):
    """Every next world, with the name of the step."""
    # Time passes, also while a process is paused. A request takes effect within its time.
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
            # The time of the question counts, not the time of the answer.
            yield "ask", w._replace(at="asking", asked=0, read=None)
        elif broken == "afterwards":
            yield "ask", w._replace(at="asking", asked=0, read=None)
        else:
            yield "send the row", w._replace(at="registering", sent=0)
    elif w.at == "registering":
        if w.sent <= REQUEST:
            yield "the row is written", w._replace(at="idle", row="other", watched=None)
        else:
            # The outcome is unknown: it counts as not written.
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
        yield "delete the row", w._replace(row="absent", watched=None)
    if w.settled and w.state < LAST:
        yield "change the state", w._replace(state=w.state + 1, changed=0, settled=False)
    if not w.settled:
        # The manifest is read at the end of the wait: the builder waits for the writers that are registered then.
        waits = w.row != "absent" and broken != "ignored"
        # In one process the writer learns of a change at once, and reads the state again unless it is writing.
        knows = w.at == "idle" or w.read == w.state
        answered = w.flying in (None, w.state) or broken == "given up"
        if broken in ("alone", "given up"):
            if knows and answered:
                yield "go on", w._replace(settled=True)
        elif not waits or w.changed >= CACHE + (0 if broken == "no request" else REQUEST):
            yield "go on", w._replace(settled=True)


def is_violation(before, step):
    """Whether a write takes effect that is based on a state two steps old."""
    return step == "a write takes effect" and before.flying < before.state - 1


def run(broken=None):
    seen, stack, count = {START}, [(START, None)], 0
    while stack:
        world, path = stack.pop()
        count += 1
        for step, after in steps(world, broken):
            if is_violation(world, step):
                trail = [step]
                while path:
                    trail.append(path[0])
                    path = path[1]
                return count, trail[::-1]
            if after not in seen:
                seen.add(after)
                stack.append((after, (step, path)))
    return count, None


RIGHT = [None, "alone"]
# Each variant leaves out one rule.
VARIANTS = [
    "given up",  # as `alone`, but a request that its process has given up, and that may still take effect, counts as done
    "unregistered",  # a writer whose registration may have expired reads the state without sending its row first
    "afterwards",  # a writer sends its row after it has read the state
    "ignored",  # the builder does not wait for registered writers
    "early",  # the builder deletes a row after HEARTBEAT/2
    "at once",  # the builder deletes a row without watching it
    "stale",  # a writer uses a state for longer than CACHE
    "no request",  # a wait does not include the time of requests
]


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
