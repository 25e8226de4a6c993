"""The journal protocol with leases: a journal row has at most one applier at a time (the writer until its lease ends, then one worker).

Explicit-state search over every order of the steps of the writers and workers, and of their deaths. The lease of a dead process has ended.

A state is (E, J, T, I, P, W, ctr):
  E    the entity: (version, value), or None if it is absent
  J    the journal rows: (ticket, affected values)
  T    the tickets: the numbers of their writers
  I    the index entries: the values that have one
  P    for each writer its step and what it knows
  W    for each worker its step and what it knows
  ctr  the last version of the entity

Each variant leaves out one rule and must find a violation:
  norecheck  the applier does not read the entity again after it has written the entries
  nolease    a worker applies a journal row while its writer still does
  dropearly  a worker drops a ticket without a journal row while the writer may still commit
  delfirst   the writer commits without a journal row, so nothing tells the worker what to apply
"""

import sys
from collections import deque

unexpected = []


def run(writers, nworkers=1, variant='', crash=True, start='a', maxstates=8_000_000):
    E0 = (0, start) if start else None
    init = (
        E0,
        frozenset(),
        frozenset(),
        frozenset({start} if start else ()),
        tuple(('read', ()) for _ in writers),
        tuple(('idle', ()) for _ in range(nworkers)),
        len(writers) * 4,
    )
    seen = {init}
    q = deque([init])
    finals = 0
    bad = None
    des = lambda E, k: E is not None and E[1] == k
    while q and not bad:
        s = q.popleft()
        if len(seen) > maxstates:
            print('stopped at', maxstates, 'states: not decided', writers)
            unexpected.append(writers)
            return
        E, J, T, I, P, W, ctr = s
        succ = []

        def applier(kind, i, pc, loc, emit):
            # The steps of an applier, for a writer and a worker. loc = (ticket, keys, ...)
            if pc == 'cur':
                t, keys = loc
                emit(npc='apply', nloc=(t, keys, E, tuple(sorted(keys))))
            elif pc == 'apply':
                t, keys, cur, todo = loc
                if not todo:
                    if variant == 'norecheck':
                        emit(npc='delj', nloc=(t,))
                    elif variant == 'delfirst':
                        emit(npc='delt', nloc=(t,))
                    else:
                        emit(npc='recheck', nloc=(t, keys, cur))
                else:
                    k = todo[0]
                    emit(I=(I | {k}) if des(cur, k) else (I - {k}), npc='apply', nloc=(t, keys, cur, todo[1:]))
            elif pc == 'recheck':
                t, keys, cur = loc
                if E != cur:
                    emit(npc='apply', nloc=(t, keys, E, tuple(sorted(keys))))
                else:
                    emit(npc='delj', nloc=(t,))
            elif pc == 'delj':
                (t,) = loc
                emit(J=frozenset(j for j in J if j[0] != t), npc='delt', nloc=(t,))
            elif pc == 'delt':
                (t,) = loc
                emit(T=T - {t}, npc='end', nloc=())

        for i, (pc, loc) in enumerate(P):

            def emit(E=E, J=J, T=T, I=I, npc=None, nloc=(), ctr=ctr):
                PP = list(P)
                PP[i] = ('done', ()) if npc == 'end' else (npc, nloc)
                succ.append((E, J, T, I, tuple(PP), W, ctr))

            if pc in ('done', 'dead'):
                continue
            if crash:
                emit(npc='dead')
            new = writers[i]
            if pc == 'read':
                emit(npc='ticket', nloc=(E,))
            elif pc == 'ticket':
                emit(T=T | {i}, npc='egt', nloc=loc)
            elif pc == 'egt':
                (old,) = loc
                if E != old:
                    emit(npc='read')
                elif old is None and new is None:
                    emit(npc='delt', nloc=(i,))
                else:
                    c = ctr + 1
                    nE = None if new is None else (c, new)
                    keys = frozenset(k for k in ((old[1] if old else None), new) if k is not None)
                    if variant == 'delfirst':
                        emit(E=nE, npc='cur', nloc=(i, keys), ctr=c)
                    else:
                        emit(E=nE, J=J | {(i, keys)}, npc='cur', nloc=(i, keys), ctr=c)
            else:
                applier('P', i, pc, loc, emit)
        for w, (pc, loc) in enumerate(W):

            def emit(E=E, J=J, T=T, I=I, npc=None, nloc=(), ctr=ctr):
                WW = list(W)
                WW[w] = ('idle', ()) if npc == 'end' else (npc, nloc)
                succ.append((E, J, T, I, P, tuple(WW), ctr))

            if pc == 'dead':
                continue
            if crash and pc != 'idle' and sum(x[0] == 'dead' for x in W) < nworkers - 1:
                emit(npc='dead')
            if pc == 'idle':
                for t in T:
                    owner_busy = P[t][0] not in ('dead', 'done') or any(
                        x[0] not in ('idle', 'dead') and x[1] and x[1][0] == t for j, x in enumerate(W) if j != w
                    )
                    if variant == 'nolease':
                        owner_busy = False
                    if owner_busy:
                        continue
                    rows = [j for j in J if j[0] == t]
                    if rows:
                        emit(npc='cur', nloc=(t, rows[0][1]))
                    else:
                        emit(T=T - {t}, npc='end')
                if variant == 'dropearly':
                    for t in T:
                        if not any(j[0] == t for j in J):
                            emit(T=T - {t}, npc='end')
            else:
                applier('W', w, pc, loc, emit)
        if all(p[0] in ('done', 'dead') for p in P) and all(w[0] in ('idle', 'dead') for w in W) and not T:
            finals += 1
            want = frozenset({E[1]}) if E else frozenset()
            if I != want or J:
                bad = s
        for x in succ:
            if x not in seen:
                seen.add(x)
                q.append(x)
    print(
        f"{variant or 'protocol':10} writers={writers} start={start} workers={nworkers} states={len(seen)} finals={finals}",
        'VIOLATION' if bad else 'OK',
        bad and (bad[0], sorted(bad[3])) or '',
    )
    if bool(bad) != bool(variant):
        unexpected.append((variant, writers))


for ws in (['b', 'c'], ['b', None], ['b', 'a'], [None, 'b'], ['b', 'b']):
    run(ws)
run(['b', None], nworkers=2)
run(['b', 'c'], nworkers=2)
run(['b', 'c'], start=None)
run(['b', None], start=None)
run(['b', None, 'c'], nworkers=1)
for v in ('norecheck', 'nolease', 'dropearly', 'delfirst'):
    run(['b', 'c'], variant=v)
sys.exit(1 if unexpected else 0)
