"""Moving an entity that has a unique value: the mover keeps the value from the first request to the last.

Explicit-state search over every schedule of the actors, of their deaths, and of one recovery worker.

An entity is (version, value, mark). A mark names the move that has frozen the entity. An absent entity has version 0.
A unique row is (owner, heir, write, state). A row with an heir is a *pair*: the heir will own the value if the write commits.
The journal holds ('commit', write) and ('abort', write); both stand at one key, so only one of them is ever inserted.

A move of S to D, write t:
  read S and D -> ticket -> mark S -> pair the row -> group at D: write D and the journal row -> delete S -> settle the row -> look
  again at both entities -> delete the journal row -> delete the ticket.
A writer that meets a marked entity gives the move up by its abort row, and writes in the marked version; if the move is committed, it
deletes the source in that version and reads again. A claimant of a paired value gives the move up, too, and then looks whether the
owner holds the value; if the move is committed, whether the heir does. Only the applier of the committed move gives the value to
the heir.

Each variant leaves out one rule and must find a violation. A search that reaches its limit of states fails. The whole run takes about three minutes.
"""
import sys
from collections import deque

ABSENT = (0, None, None)


def run(actors, start, variant='', workers=1, limit=4_000_000):
    places = sorted(start)
    E0 = tuple((p, ('t0', start[p], None) if start[p] else ABSENT) for p in places)
    R0 = tuple(sorted((v, (p, None, 't0', 'ok')) for p, v in start.items() if v))
    init = (E0, frozenset(), frozenset(), R0, tuple(('read', ()) for _ in actors), tuple(('idle', ()) for _ in range(workers)))
    seen, queue, bad, finals = {init}, deque([init]), None, 0

    def put(pairs, key, value):
        d = dict(pairs)
        d.pop(key, None)
        if value is not None:
            d[key] = value
        return tuple(sorted(d.items()))

    while queue and not bad:
        s = queue.popleft()
        E, J, T, R, P, W = s
        e_of, row_of, succ = dict(E), dict(R), []
        committed = lambda t: ('commit', t) in J
        aborted = lambda t: ('abort', t) in J
        abort = lambda t: J if committed(t) else J | {('abort', t)}
        if len(seen) > limit:
            bad = ('STOPPED: not decided', limit, 'states')
            break
        values = [x[1] for x in e_of.values() if x[1] and not (x[2] and committed(x[2]))]
        if len(set(values)) != len(values):
            bad = ('TWO OWNERS', s)
            break

        def settled(row, k, read, candidates):
            """The row as its entities say: the first candidate that holds the value owns it; without one the row goes."""
            for place in candidates:
                if place and dict(read).get(place) == k:
                    return (place, None, row[2], 'ok')
            return None

        def candidates(row, place, has_journal):
            # Only a committed move may give the value to its own heir: one that was given up never will.
            if has_journal and row[2] == has_journal[1]:
                return (row[1], row[0], place)
            return (row[0], place) if has_journal else (row[0],)

        def apply(pc, loc, emit):
            """Settles the keys of a write. job = (write, place, source of a move, keys, is it committed)."""
            job, todo, used = loc[:3]
            t, place, source, keys, has_journal = job
            has_journal = has_journal and ('commit', t)
            own = [p for p in (place, source) if p]
            if pc == 'source':                       # a committed move deletes its source; another unmarks it
                x = e_of[source]
                if x[2] != t:
                    emit(npc='next', nloc=loc)
                elif has_journal:
                    emit(E=put(E, source, ABSENT), npc='next', nloc=loc)
                else:
                    emit(E=put(E, source, ((t, 'u'), x[1], None)), npc='next', nloc=loc)
            elif pc == 'next':
                if todo:
                    emit(npc='row', nloc=loc)
                else:
                    emit(npc='recheck' if has_journal else 'drop', nloc=loc)
            elif pc == 'row':
                row = row_of.get(todo[0])
                look = own + [p for p in (row or ())[:2] if p and p not in own]
                emit(npc='look', nloc=(job, todo, used, row, tuple(look), ()))
            elif pc == 'look':
                row, look, read = loc[3:]
                p, x = look[0], e_of[look[0]]
                if p in own:
                    before = dict(used).get(p, x[0])
                    used = put(used, p, x[0] if before == x[0] else 'changed')
                read += ((p, x[1]),)
                emit(npc='look' if look[1:] else 'write', nloc=(job, todo, used, row, look[1:], read))
            elif pc in ('write', 'write after abort'):
                row, _, read = loc[3:]
                k, go_on = todo[0], (job, todo[1:], used)
                mine = row is not None and (row[0] in own or row[1] in own)
                if row_of.get(k) != row:
                    emit(npc='row', nloc=(job, todo, used))
                elif not mine:
                    emit(npc='next', nloc=go_on)
                elif row[3] == 'pending' and row[2] != t and pc == 'write':
                    if not has_journal or committed(row[2]):     # a release leaves it; a committed write answers for itself
                        emit(npc='next', nloc=go_on)
                    else:
                        emit(J=abort(row[2]), npc='write after abort', nloc=loc)
                elif pc == 'write after abort' and not aborted(row[2]):
                    emit(npc='row', nloc=(job, todo, used))
                else:
                    emit(R=put(R, k, settled(row, k, read, candidates(row, place, has_journal))), npc='next', nloc=go_on)
            elif pc == 'recheck':
                if any(e_of[p][0] != v for p, v in used):
                    emit(npc='source' if source else 'next', nloc=(job, keys, ()))
                else:
                    emit(npc='clear', nloc=loc)
            elif pc == 'clear':
                emit(J=J - {('commit', t)}, npc='drop', nloc=loc)
            elif pc == 'drop':
                emit(T=frozenset(x for x in T if x[0] != t), npc='end')

        for i, (pc, loc) in enumerate(P):
            def emit(E=E, J=J, T=T, R=R, npc=None, nloc=()):
                succ.append((E, J, T, R, P[:i] + ((('done', ()) if npc == 'end' else (npc, nloc)),) + P[i + 1:], W))
            if pc in ('done', 'dead'):
                continue
            emit(npc='dead')
            kind, place, what = (*actors[i], None)[:3]  # `what`: the new value, or the destination of a move
            t = 'w%d' % i
            move = kind == 'move'                    # place = the source, what = the destination
            target, source = (what, place) if move else (place, None)

            def finish(keys, has_journal):
                job = (t, target, source, keys, has_journal)
                return dict(npc='source' if move else 'next', nloc=(job, keys, ()))

            if pc == 'read':
                x = e_of[place]
                if kind == 'insert':
                    x = ABSENT
                y = e_of[what] if move else ABSENT   # what the move replaces at the destination
                frozen = [(p, z) for p, z in ((place, x), (target, y)) if z[2] and not aborted(z[2]) and not (variant == 'over mark' and z is y)]
                if frozen and variant != 'no freeze':  # by a move: give it up, or finish it
                    p, z = frozen[0]
                    if committed(z[2]):
                        emit(npc='help', nloc=(p, z))
                    else:
                        emit(J=abort(z[2]), npc='read')
                    continue
                new = x[1] if move or kind == 'touch' else what
                keys = tuple(sorted({k for k in (x[1], new, y[1]) if k}))
                if not keys or (move and not x[1]) or (kind == 'change' and x[1] == new) or (kind == 'touch' and not new):
                    emit(npc='end')
                else:
                    loc = (x, keys, new, y)
                    npc = 'mark' if move else 'commit' if kind == 'touch' or not new else 'reserve'
                    emit(T=T | {(t, target, source, keys)}, npc=npc, nloc=loc)
            elif pc == 'help':
                p, z = loc
                emit(E=put(E, p, ABSENT) if e_of[p] == z else E, npc='read')
            elif pc == 'mark':
                x, keys, new, y = loc
                if variant == 'no mark':
                    emit(npc='reserve', nloc=loc)
                elif e_of[place] != x:
                    emit(**finish(keys, False))
                else:
                    x = ((t, 'm'), x[1], t)
                    emit(E=put(E, place, x), npc='reserve', nloc=(x, keys, new, y))
            elif pc == 'reserve':
                x, keys, new, y = loc
                if variant == 'no pair' and move:
                    emit(npc='commit', nloc=loc)
                else:
                    emit(npc='claim', nloc=loc + (row_of.get(new),))
            elif pc == 'claim':
                x, keys, new, y, row = loc
                again, wanted = (x, keys, new, y), (place, what if move else None, t, 'pending')
                if row_of.get(new) != row:
                    emit(npc='reserve', nloc=again)
                elif row is None:
                    if move:
                        emit(**finish(keys, False))   # the value is not the source's: nothing to keep
                    else:
                        emit(R=put(R, new, wanted), npc='commit', nloc=again)
                elif row[3] == 'pending' and row[2] != t and not aborted(row[2]):
                    if committed(row[2]):
                        if (row[1] or row[0]) == place:
                            emit(R=put(R, new, wanted), npc='commit', nloc=again)
                        else:
                            emit(npc='heir', nloc=loc)
                    elif variant == 'take over' and place not in row[:2]:
                        emit(npc='holder', nloc=loc)
                    else:
                        emit(J=abort(row[2]), npc='claim', nloc=loc)
                elif row[3] == 'pending' and row[2] != t and (row[0] != place or row[1]):
                    emit(npc='holder', nloc=loc)
                elif row[0] == place:
                    emit(R=put(R, new, wanted), npc='commit', nloc=again)
                else:
                    emit(**finish(keys, False))       # taken
            elif pc == 'holder':                      # its write was given up: does the owner hold the value?
                owner = loc[4][0]
                emit(npc='release', nloc=loc + ((owner, e_of[owner][1]),))
            elif pc == 'heir':                        # its write is committed: what its heir does not hold is free
                row = loc[4]
                if e_of[row[1] or row[0]][1] == loc[2]:
                    emit(**finish(loc[1], False))     # taken
                else:
                    emit(npc='free', nloc=loc)
            elif pc == 'free':
                x, keys, new, y, row = loc
                emit(R=put(R, new, None) if row_of.get(new) == row else R, npc='reserve', nloc=loc[:4])
            elif pc == 'release':
                x, keys, new, y, row, read = loc
                if row_of.get(new) != row:
                    emit(npc='reserve', nloc=loc[:4])
                else:
                    emit(R=put(R, new, settled(row, new, (read,), (row[0],))), npc='reserve', nloc=loc[:4])
            elif pc == 'commit':
                x, keys, new, y = loc
                if aborted(t) and variant != 'no abort':
                    emit(**finish(keys, False))
                elif move:
                    if e_of[what] != y:
                        emit(**finish(keys, False))
                    else:
                        if e_of[place] != x:              # the source changed: what arrives is a copy of what it was
                            bad = ('MOVED AND CHANGED', s)
                        emit(E=put(E, what, (t, x[1], None)), J=J | {('commit', t)}, **finish(keys, True))
                elif e_of[place] != x:
                    emit(**finish(keys, False))
                else:
                    emit(E=put(E, place, (t, new, None) if new else ABSENT), J=J | {('commit', t)}, **finish(keys, True))
            else:
                apply(pc, loc, emit)

        for w, (pc, loc) in enumerate(W):
            def emit(E=E, J=J, T=T, R=R, npc=None, nloc=()):
                succ.append((E, J, T, R, P, W[:w] + ((('idle', ()) if npc == 'end' else (npc, nloc)),) + W[w + 1:]))
            if pc != 'idle':
                apply(pc, loc, emit)
                continue
            for t, target, source, keys in T:
                if any(x[0] != 'idle' and x[1][0][0] == t for x in W):
                    continue
                if committed(t) and P[int(t[1:])][0] not in ('dead', 'done'):
                    continue                          # the writer holds the lease on applying
                job = (t, target, source, keys, committed(t))
                emit(J=J if variant == 'no abort' else abort(t), npc='source' if source else 'next', nloc=(job, keys, ()))

        if all(p[0] in ('done', 'dead') for p in P) and all(w[0] == 'idle' for w in W) and not T:
            finals += 1
            want = sorted((x[1], p) for p, x in e_of.items() if x[1])
            have = sorted((k, r[0]) for k, r in R if not (r[3] == 'pending' and aborted(r[2]) and (k, r[0]) not in want))
            marks = [x for x in e_of.values() if x[2] and not aborted(x[2])]
            if want != have or marks or any(j[0] == 'commit' for j in J):
                bad = ('END', s)
        for x in succ:
            if x not in seen:
                seen.add(x)
                queue.append(x)
    print(f"{variant or 'protocol':11}", actors, start, 'states', len(seen), 'ends', finals, bad or 'ok', flush=True)
    # A search that was stopped is neither right nor the violation that a variant must find.
    return None if variant and bad and bad[0].startswith('STOPPED') else bad


MOVE = ('move', 'S', 'D')
START = {'S': 'a', 'D': None, 'Y': None}
BEFORE = {'S': 'b', 'D': None, 'Y': None}
PAIRS = [
    [MOVE, ('change', 'Y', 'a')],                     # another entity claims the value
    [MOVE, ('insert', 'D', 'b')],                     # the destination is taken meanwhile
    [MOVE, ('insert', 'D', 'a')],
    [MOVE, ('change', 'D', None)],                    # the moved entity is deleted
    [MOVE, ('change', 'S', 'b')],                     # the source changes its value
    [MOVE, ('change', 'S', None)],
    [MOVE, ('insert', 'S', 'a')],
    [MOVE, ('move', 'S', 'Y')],                       # two moves of one entity
    [MOVE, ('move', 'D', 'S')],                       # and back
    [MOVE, ('touch', 'S')],
]
EARLIER = [MOVE, ('change', 'S', 'a'), ('change', 'Y', 'a')]      # an earlier change of the source is still being applied
TRIPLES = [
    [MOVE, ('change', 'D', None), ('change', 'Y', 'a')],
    [MOVE, ('change', 'S', None), ('change', 'Y', 'a')],
    [MOVE, ('insert', 'S', 'a'), ('change', 'Y', 'a')],
    [MOVE, ('change', 'S', 'b'), ('change', 'Y', 'a')],
    [MOVE, ('touch', 'D'), ('change', 'Y', 'a')],
    [MOVE, ('move', 'D', 'S'), ('change', 'Y', 'a')],
]
THERE = {'S': 'a', 'D': 'b', 'Y': None}               # the destination is replaced
OVER = [
    [MOVE, ('change', 'Y', 'b')],
    [MOVE, ('change', 'D', None)],
    [MOVE, ('change', 'Y', 'a')],
    [MOVE, ('move', 'D', 'Y')],
]
BROKEN = [
    ('no pair', EARLIER),
    ('no mark', [MOVE, ('change', 'S', 'b')]),
    ('no freeze', [MOVE, ('change', 'S', 'b')]),
    ('no abort', [MOVE, ('change', 'Y', 'a')]),
    ('take over', [MOVE, ('change', 'S', None), ('change', 'Y', 'a')]),
    ('over mark', [MOVE, ('move', 'D', 'Y')]),
]

if __name__ == '__main__':
    wrong = 0
    for actors in PAIRS:
        wrong += bool(run(actors, START))
    for actors in TRIPLES:
        wrong += bool(run(actors, START, workers=0))
    for actors in OVER:
        wrong += bool(run(actors, THERE))
    wrong += bool(run(EARLIER, BEFORE, workers=0))
    for variant, actors in BROKEN:
        wrong += not run(actors, BEFORE if actors is EARLIER else THERE if variant == 'over mark' else START, variant, workers=3 - len(actors))
    sys.exit(wrong > 0)
