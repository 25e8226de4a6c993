"""Requests of one write that overlap.

Explicit-state search over every order of the steps and of the deaths of processes. A request is in flight between its sending and its effect.
A process that dies leaves its requests in flight: each takes effect later or never, and the lease of the process ends after that.

`apply`: the entries of an entity are written at the same time, and the journal row is deleted in the background while the process starts its
next write. A state is (E, J, T, I, P, W, ctr): the entity (version, value), the journal rows (ticket, keys, applier id), the tickets, the entries;
for each process its step, what it knows, its requests in flight and its background work; the worker; the last version.

`reserve`: several unique values are reserved at the same time, by two or three entities. A state is (R, D, A, T, P, W): the rows
value -> (owner, is pending), the entities whose write is committed, the aborted writes, the tickets, the writers, the worker.

Each variant leaves out one rule and must find a violation:
  early round    the next round starts before every answer of the round before
  early check    the entity is checked before every answer
  ticket first   the ticket is deleted before the journal row
  early release  reservations are released before every answer
"""

import sys
from collections import deque

unexpected = []


def search(name, variant, init, step, final, always=lambda s: None, maxstates=4_000_000):
    seen = {init}
    q = deque([init])
    finals = 0
    bad = None
    while q and not bad:
        s = q.popleft()
        bad = always(s)
        if bad:
            break
        nexts = list(step(s))
        end = final(s)
        if end is not None:
            finals += 1
            bad = end or None
        for x in nexts:
            if x not in seen:
                seen.add(x)
                q.append(x)
        if len(seen) > maxstates:
            print('stopped at', maxstates, 'states: not decided', name)
            unexpected.append(name)
            return
    print(f"{variant or 'protocol':12} {name} states={len(seen)} finals={finals}", 'VIOLATION' if bad else 'OK', bad or '', flush=True)
    if bool(bad) != bool(variant) or not (finals or bad):
        unexpected.append((name, variant))


def apply(processes, start='a', variant='', parts=(1, 2)):
    """processes: for each process the values that it writes, one write after the other; None deletes. Each value has an entry in every part."""
    keys = lambda v: frozenset((v, p) for p in parts) if v else frozenset()
    wanted = lambda E, ks: frozenset((k, E is not None and k[0] == E[1]) for k in ks)
    init = (
        (0, start) if start else None,
        frozenset(),
        frozenset(),
        keys(start),
        tuple((('read', 0), None, frozenset(), frozenset()) for _ in processes),
        ('idle', None, frozenset()),
        0,
    )

    def machine(E, J, I, pc, loc, F, next_):
        """One round after the other: all requests at once, every answer, then the check."""
        t, ks, cur = loc
        if pc == 'send':
            yield dict(pc='wait', loc=(t, ks, E), F=F | wanted(E, ks))
        if pc == 'wait':
            for k, put in F:
                yield dict(I=I | {k} if put else I - {k}, F=F - {(k, put)})
            if variant == 'early round' and E != cur:
                yield dict(pc='wait', loc=(t, ks, E), F=F | wanted(E, ks))
            if not F or variant == 'early check' and len(F) < len(ks):
                if E == cur:
                    yield dict(next_)
                else:
                    yield dict(pc='send')

    def step(s):
        E, J, T, I, P, W, ctr = s
        for i, (pc, loc, F, B) in enumerate(P):

            def to(E=E, J=J, T=T, I=I, ctr=ctr, **new):
                mine = dict(pc=pc, loc=loc, F=F, B=B)
                mine.update(new)
                PP = list(P)
                PP[i] = (mine['pc'], mine['loc'], mine['F'], mine['B'])
                return (E, J, T, I, tuple(PP), W, ctr)

            if pc == 'dead':
                for k, put in F:
                    yield to(I=I | {k} if put else I - {k}, F=F - {(k, put)})
                    yield to(F=F - {(k, put)})
                continue
            yield to(pc='dead', loc=None, B=frozenset())
            for t, stage in B:  # clearing, behind the answer; the row under its version
                rest = B - {(t, stage)}
                row = next((j for j in J if j[0] == t), None)
                if stage == 'row' and variant != 'ticket first':
                    yield to(J=J - {(t, row[1], 0)} if row else J, B=rest | {(t, 'ticket')} if row is None or row[2] == 0 else rest)
                elif stage == 'row':
                    yield to(T=T - {t}, B=rest | {(t, 'ticket')})
                elif variant == 'ticket first':
                    yield to(J=J - {row} if row else J, B=rest)
                else:
                    yield to(T=T - {t}, B=rest)
            if pc == 'done':
                continue
            if pc[0] == 'read':
                n = pc[1]
                if n == len(processes[i]):
                    yield to(pc='done')
                elif E is None and processes[i][n] is None:
                    yield to(pc=('read', n + 1))
                else:
                    yield to(pc=('ticket', n), loc=E)
            elif pc[0] == 'ticket':
                yield to(T=T | {(i, pc[1])}, pc=('commit', pc[1]))
            elif pc[0] == 'commit':
                n = pc[1]
                new = processes[i][n]
                t = (i, n)
                if E != loc:
                    yield to(pc=('read', n + 1), loc=None, T=T - {t})
                else:
                    c = ctr + 1
                    ks = keys(loc and loc[1]) | keys(new)
                    yield to(E=None if new is None else (c, new), J=J | {(t, ks, 0)}, ctr=c, pc='send', loc=(t, ks, None))
            elif pc in ('send', 'wait'):
                t = loc[0]
                row = next((j for j in J if j[0] == t), None)
                for new in machine(E, J, I, pc, loc, F, dict(pc=('read', t[1] + 1), loc=None, B=B | {(t, 'row')})):
                    yield to(**new)
        pc, loc, F = W

        def to(E=E, J=J, T=T, I=I, pc=pc, loc=loc, F=F):
            return (E, J, T, I, P, (pc, loc, F), ctr)

        if pc == 'idle':
            for t in T:
                w = P[t[0]]
                alive = w[0] not in ('dead', 'done')
                applying = alive and (w[0] in ('send', 'wait') and w[1][0] == t or w[0] == ('ticket', t[1]) or w[0] == ('commit', t[1]))
                flying = any(f for f in w[2]) and not alive  # the lease has not ended
                if applying or flying:
                    continue
                row = next((j for j in J if j[0] == t), None)
                if row:
                    yield to(J=J - {row} | {(t, row[1], 1)}, pc='send', loc=(t, row[1], None))  # claimed
                else:
                    yield to(T=T - {t})
        elif pc in ('send', 'wait'):
            for new in machine(E, J, I, pc, loc, F, dict(pc='row')):
                yield to(**new)
        elif pc == 'row':
            yield to(J=frozenset(j for j in J if j[0] != loc[0]), pc='ticket')
        elif pc == 'ticket':
            yield to(T=T - {loc[0]}, pc='idle', loc=None)

    def final(s):
        E, J, T, I, P, W, _ = s
        if any(p[0] not in ('dead', 'done') or p[2] or p[3] for p in P) or W[0] != 'idle' or W[2] or T:
            return None
        return '' if I == keys(E and E[1]) and not J else s

    search(f'apply {processes} start={start}', variant, init, step, final)


def reserve(wants, values=('u', 'v'), variant=''):
    """wants: for each entity the set of values that it is to gain, reserved at the same time. An entity commits when it has them all."""
    n = len(wants)
    # R: value -> (owner, pending); D: entities that are written; A: aborted writes; P: (pc, {value: step}); W: {writes that the worker releases}.
    init = (
        tuple((v, None) for v in values),
        frozenset(),
        frozenset(),
        frozenset(range(n)),
        tuple(('go', tuple((v, 'send') for v in sorted(w))) for w in wants),
        (None, ()),
    )
    put = lambda R, v, row: tuple((x, row if x == v else r) for x, r in R)

    def step(s):
        R, D, A, T, P, W = s
        rows = dict(R)
        for i, (pc, S) in enumerate(P):

            def to(R=R, D=D, A=A, T=T, pc=pc, S=S):
                PP = list(P)
                PP[i] = (pc, S)
                return (R, D, A, T, tuple(PP), W)

            def at(v, new):
                return tuple((x, new if x == v else y) for x, y in S)

            if pc == 'end':
                continue
            if pc != 'dead':
                yield to(pc='dead', S=tuple((v, y) for v, y in S if y == 'fly'))
            if pc == 'dead':  # a reservation that was in flight takes effect later, or never
                for v, _ in S:
                    rest = tuple(x for x in S if x[0] != v)
                    yield to(S=rest)
                    if rows[v] is None:
                        yield to(R=put(R, v, (i, True)), S=rest)
                continue
            for v, y in S:
                row = rows[v]
                if y == 'send' and pc == 'go':
                    yield to(S=at(v, 'fly'))
                elif y == 'fly':
                    if row is None:
                        yield to(R=put(R, v, (i, True)), S=at(v, 'mine'))
                    elif row[0] == i:
                        yield to(S=at(v, 'mine'))
                    else:
                        yield to(S=at(v, ('found', row)))
                elif isinstance(y, tuple) and y[0] == 'found' and pc == 'go':
                    o = y[1][0]
                    if y[1][1] and o not in D and o not in A:
                        yield to(A=A | {o})  # given up first
                    elif o in D:
                        yield to(S=at(v, 'taken'))
                    else:
                        yield to(R=put(R, v, None) if row == y[1] else R, S=at(v, 'send'))
            steps = [y for _, y in S]
            answered = not any(y == 'fly' for y in steps)
            if pc == 'go' and all(y == 'mine' for y in steps):
                yield to(pc='commit')
            # After every answer, or (a variant) after the first one that says taken.
            if pc == 'go' and 'taken' in steps and (answered or variant == 'early release'):
                yield to(pc='release', S=tuple((v, y if y == 'fly' else 'mine') for v, y in S))
            if pc == 'commit':
                if i in A:
                    yield to(pc='release')
                else:
                    yield to(D=D | {i}, pc='apply')
            if pc in ('release', 'apply'):
                left = [v for v, y in S if y == 'mine']
                for v in left:  # settled or released at the same time; a row under its version
                    mine = rows[v] == (i, True)
                    yield to(R=put(R, v, (i, False) if pc == 'apply' else None) if mine else R, S=at(v, 'done'))
                if not left:
                    yield to(T=T - {i}, pc='end' if answered else 'late')
            if pc == 'late' and answered:
                yield to(pc='end')
        w, left = W

        def to(R=R, A=A, T=T, W=W):
            return (R, D, A, T, P, W)

        if w is None:
            for t in T:
                if t in D:
                    if P[t][0] == 'dead':
                        yield to(W=(t, tuple(sorted(wants[t]))))
                elif P[t][0] == 'dead' and not P[t][1]:
                    yield to(A=A | {t}, W=(t, tuple(sorted(wants[t]))))
        elif left:
            v = left[0]
            mine = rows[v] == (w, True)
            yield to(R=put(R, v, (w, False) if w in D else None) if mine else R, W=(w, left[1:]))
        else:
            yield to(T=T - {w}, W=(None, ()))

    def always(s):
        R, D, A = s[:3]
        if any(wants[a] & wants[b] for a in D for b in D if a < b):
            return ('DUPLICATE', s)
        if D & A:
            return ('COMMITTED AFTER ABORT', s)

    def final(s):
        R, D, A, T, P, W = s
        if any(p[0] not in ('dead', 'end') or p[0] == 'dead' and p[1] for p in P) or W[0] is not None or T:
            return None
        want = {v: (i, False) for i in D for v in wants[i]}
        return '' if all(r == want.get(v) for v, r in R) else s

    search(f'reserve {[sorted(w) for w in wants]}', variant, init, step, final, always)


for ps in ([['b']], [['b'], ['c']], [['b'], [None]], [['b', 'a']], [['b', None], ['c']], [[None, 'a'], ['b']]):
    apply(ps)
apply([['b'], ['c']], start=None)
for v in ('early round', 'early check'):
    apply([['b'], ['c']], variant=v)
apply([['b']], variant='ticket first')
both, u, v = frozenset('uv'), frozenset('u'), frozenset('v')
for ws in ([both, both], [both, u], [both, u, v]):
    reserve(ws)
reserve([both, u], variant='early release')
sys.exit(1 if unexpected else 0)
