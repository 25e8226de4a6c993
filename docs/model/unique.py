"""A unique index across partitions: reservations, the journal and leases. No two entities may have one value.

Explicit-state search over every order of the steps of the writers and workers, and of the writers' deaths. The entities are X and Y. An entity
that is deleted and inserted again has no version in between. Rows are compared by their content, which is weaker than an ETag.

A writer is (entity, value[, kind]). `change` reads the entity first, `insert` expects that it is absent, `touch` changes another property.

A state is (E, J, T, R, P, W):
  E  the entities: (name, version, value)
  J  the journal rows (ticket, entity, values) and the abort rows ('abort', ticket); both stand at one key
  T  the tickets: (ticket, entity, values)
  R  the unique rows: value -> (owner, ticket, 'pend' or 'ok')
  P  for each writer its step and what it knows
  W  for each worker its step and what it knows

Each variant leaves out one rule and must find a violation:
  adoptfirst   a writer adopts a reservation of its entity before the earlier write is given up
  leave        an applier leaves the pending row of another write in place, even if the entity does not have the value
  entityfirst  the entity is read before its unique row
  takepending  an applier settles or removes the pending row of another write, which has not been given up
  noabort      a worker releases reservations without an abort row
"""

import sys
from collections import deque

unexpected = []


def run(writers, start, variant='', nworkers=1, maxstates=6_000_000):
    ents = tuple(sorted(start.items()))
    E0 = tuple((e, 0, v) for e, v in ents)  # (name,version,value)
    R0 = tuple(sorted((v, (e, 't0', 'ok')) for e, v in ents if v))
    init = (E0, frozenset(), frozenset(), R0, tuple(('read', ()) for _ in writers), tuple(('idle', ()) for _ in range(nworkers)))
    seen = {init}
    q = deque([init])
    bad = None
    finals = 0
    outcomes = set()
    getE = lambda E, e: next(x for x in E if x[0] == e)
    getR = lambda R, k: dict(R).get(k)

    def setR(R, k, v):
        d = dict(R)
        d.pop(k, None)
        if v is not None:
            d[k] = v
        return tuple(sorted(d.items()))

    def setE(E, e, v, tag):
        return tuple((x[0], (tag if v is not None else 0), v) if x[0] == e else x for x in E)  # absence has no version

    while q and not bad:
        s = q.popleft()
        E, J, T, R, P, W = s
        succ = []
        if len(seen) > maxstates:
            print('stopped at', maxstates, 'states: not decided', writers)
            unexpected.append('limit')
            return
        vals = [x[2] for x in E if x[2]]
        if len(set(vals)) != len(vals):
            bad = ('DUPLICATE', s)
            break

        def machine(pc, loc, emit):
            # apply/release: loc=(t,e,keys,todo,ver_seen,row)   mode by pc prefix
            t, e = loc[0], loc[1]
            if pc == 'next':
                t, e, keys, todo, ver, hasj = loc
                if not todo:
                    emit(npc='recheck' if hasj else 'delt', nloc=loc)
                    return
                emit(npc='row', nloc=loc)
            elif pc == 'row':
                t, e, keys, todo, ver, hasj = loc
                if variant == 'entityfirst':
                    emit(npc='ent', nloc=(t, e, keys, todo, ver, hasj, None, getE(E, e)))
                else:
                    emit(npc='ent', nloc=(t, e, keys, todo, ver, hasj, getR(R, todo[0]), None))
            elif pc == 'ent':
                t, e, keys, todo, ver, hasj, row, ent = loc
                if variant == 'entityfirst':
                    row = getR(R, todo[0])
                else:
                    ent = getE(E, e)
                v2 = ent[1] if ver in (None, ent[1]) else 'mixed'
                emit(npc='cas', nloc=(t, e, keys, todo, v2, hasj, row, ent[2]))
            elif pc == 'cas':
                t, e, keys, todo, ver, hasj, row, val = loc
                k = todo[0]
                cont = (t, e, keys, todo[1:], ver, hasj)
                if getR(R, k) != row:
                    emit(npc='row', nloc=(t, e, keys, todo, ver, hasj))
                    return
                if row is None or row[0] != e:
                    emit(npc='next', nloc=cont)
                    return
                if row[2] == 'pend' and row[1] != t:  # another write's: it is given up first
                    if variant == 'takepending':
                        emit(R=setR(R, k, (e, row[1], 'ok') if val == k else None), npc='next', nloc=cont)
                    elif variant == 'leave':
                        emit(R=setR(R, k, (e, row[1], 'ok')) if val == k else R, npc='next', nloc=cont)
                    elif not hasj:
                        emit(npc='next', nloc=cont)  # a release: only a committed write gives another up
                    elif any(j[0] == row[1] for j in J):
                        emit(npc='next', nloc=cont)  # committed: its journal row answers for it
                    else:
                        emit(J=J | {('abort', row[1])}, npc='cas2', nloc=loc)
                else:
                    emit(R=setR(R, k, (e, row[1], 'ok') if val == k else None), npc='next', nloc=cont)
            elif pc == 'cas2':
                t, e, keys, todo, ver, hasj, row, val = loc
                k = todo[0]
                if getR(R, k) != row:
                    emit(npc='row', nloc=(t, e, keys, todo, ver, hasj))
                else:
                    emit(R=setR(R, k, (e, row[1], 'ok') if val == k else None), npc='next', nloc=(t, e, keys, todo[1:], ver, hasj))
            elif pc == 'recheck':
                t, e, keys, todo, ver, hasj = loc
                cur = getE(E, e)
                if ver != cur[1] and ver is not None:
                    emit(npc='next', nloc=(t, e, keys, keys, None, True))
                else:
                    emit(npc='delj', nloc=loc)
            elif pc == 'delj':
                emit(J=frozenset(j for j in J if j[0] != t), npc='delt', nloc=loc)
            elif pc == 'delt':
                emit(T=frozenset(x for x in T if x[0] != t), npc='end')

        for i, (pc, loc) in enumerate(P):

            def emit(E=E, J=J, T=T, R=R, npc=None, nloc=()):
                PP = list(P)
                PP[i] = ('done', ()) if npc == 'end' else (npc, nloc)
                succ.append((E, J, T, R, tuple(PP), W))

            if pc in ('done', 'dead'):
                continue
            emit(npc='dead')
            e, new, kind = (writers[i] + ('change',))[:3]
            t = 'w%d' % i
            if pc == 'read':
                old = (e, 0, None) if kind == 'insert' else getE(E, e)
                if kind == 'touch':
                    new = old[2]
                keys = tuple(sorted({k for k in (old[2], new) if k}))
                if (old[2] == new) != (kind == 'touch') or not keys:
                    emit(npc='end')
                else:
                    emit(npc='ticket', nloc=(t, e, old, keys))
            elif pc == 'ticket':
                emit(T=T | {(t, e, loc[3])}, npc='resread' if new and kind != 'touch' else 'egt', nloc=loc)
            elif pc == 'resread':
                emit(npc='rescas', nloc=loc + (getR(R, new),))
            elif pc == 'rescas':
                t, e, old, keys, row = loc
                if getR(R, new) != row:
                    emit(npc='resread', nloc=(t, e, old, keys))
                    continue
                if row is not None and row[0] != e:
                    t2 = row[1]
                    if row[2] == 'pend' and t2 != 't0' and not any(j[0] == t2 for j in J):
                        emit(J=J | {('abort', t2)}, npc='steal', nloc=(t, e, old, keys, row))
                        continue
                    emit(npc='look', nloc=(t, e, old, keys, row))
                    continue  # settled, or committed: the entity tells whether it is taken
                if row is not None and row[2] == 'pend' and row[1] != t and variant != 'adoptfirst' and not any(j[0] == row[1] for j in J):
                    emit(J=J | {('abort', row[1])}, npc='adopt', nloc=(t, e, old, keys, row))
                    continue  # given up before it is adopted
                emit(R=setR(R, new, (e, t, 'pend')), npc='egt', nloc=(t, e, old, keys))
            elif pc == 'adopt':
                t, e, old, keys, row = loc
                if getR(R, new) != row:
                    emit(npc='resread', nloc=(t, e, old, keys))
                    continue
                emit(R=setR(R, new, (e, t, 'pend')), npc='egt', nloc=(t, e, old, keys))
            elif pc == 'egt':
                t, e, old, keys = loc
                if any(j[0] == 'abort' and j[1] == t for j in J) and variant != 'noabort':
                    emit(npc='next', nloc=(t, e, keys, keys, None, False))
                elif getE(E, e) != old:
                    emit(npc='next', nloc=(t, e, keys, keys, None, False))  # release own reservation
                else:
                    emit(
                        E=setE(E, e, old[2] if kind == 'touch' else new, t),
                        J=J | {(t, e, keys)},
                        npc='next',
                        nloc=(t, e, keys, keys, None, True),
                    )
            elif pc == 'steal':
                t, e, old, keys, row = loc
                o = row[0]
                emit(npc='steal2', nloc=(t, e, old, keys, row, getE(E, o)[2]))
            elif pc == 'steal2':
                t, e, old, keys, row, oval = loc
                if getR(R, new) != row:
                    emit(npc='resread', nloc=(t, e, old, keys))
                    continue
                if oval == new:
                    emit(R=setR(R, new, (row[0], row[1], 'ok')), npc='delt', nloc=(t, e))
                    continue
                emit(R=setR(R, new, None), npc='resread', nloc=(t, e, old, keys))
            elif pc == 'look':
                t, e, old, keys, row = loc
                emit(npc='look2', nloc=(t, e, old, keys, row, getE(E, row[0])[2]))
            elif pc == 'look2':
                t, e, old, keys, row, oval = loc
                if oval == new:
                    emit(npc='delt', nloc=(t, e))
                    continue  # violation reported
                emit(R=setR(R, new, None) if getR(R, new) == row else R, npc='resread', nloc=(t, e, old, keys))
            elif pc == 'delt':
                emit(T=frozenset(x for x in T if x[0] != t), npc='end')
            else:
                machine(pc, loc, emit)
        for w, (pc, loc) in enumerate(W):

            def emit(E=E, J=J, T=T, R=R, npc=None, nloc=()):
                WW = list(W)
                WW[w] = ('idle', ()) if npc == 'end' else (npc, nloc)
                succ.append((E, J, T, R, P, tuple(WW)))

            if pc == 'idle':
                for t, e, keys in T:
                    if any(x[0] != 'idle' and x[1][0] == t for x in W):
                        continue
                    hasj = any(j[0] == t for j in J)
                    if hasj:
                        if P[int(t[1:])][0] not in ('dead', 'done'):
                            continue  # lease on applying
                        emit(npc='next', nloc=(t, e, keys, keys, None, True))
                    else:
                        emit(
                            J=J if variant == 'noabort' else J | {('abort', t)}, npc='next', nloc=(t, e, keys, keys, None, False)
                        )  # any time: insert abort row, then release
            else:
                machine(pc, loc, emit)
        if all(p[0] in ('done', 'dead') for p in P) and all(w[0] == 'idle' for w in W) and not T:
            finals += 1
            want = tuple(sorted((x[2], x[0]) for x in E if x[2]))
            have = tuple(sorted((k, r[0]) for k, r in R))
            ab = {j[1] for j in J if j[0] == 'abort'}
            left = [(k, r) for k, r in R if not (r[2] == 'pend' and r[1] in ab and (k, r[0]) not in want)]
            live = tuple(sorted((k, r[0]) for k, r in left))
            if want != live or any(j[0] != 'abort' for j in J):
                bad = ('FINAL', s)
            outcomes.add(tuple(x[2] for x in E))
        for x in succ:
            if x not in seen:
                seen.add(x)
                q.append(x)
    print(
        f"{variant or 'protocol':12}",
        writers,
        start,
        'states',
        len(seen),
        'finals',
        finals,
        'outcomes',
        len(outcomes),
        'OK' if not bad else ('VIOLATION', bad),
    )
    if bool(bad) != bool(variant):
        unexpected.append((variant, writers))


RETRY = [('X', 'a', 'insert'), ('X', 'a', 'touch'), ('X', None), ('Y', 'a')]
TWICE = [('X', 'b'), ('X', 'b'), ('Y', 'b')]  # two writes of one entity, and another owner
INSERTS = [('X', 'b', 'insert'), ('X', 'b', 'insert'), ('Y', 'b')]
if __name__ == '__main__':
    run([('X', 'b'), ('Y', 'b')], {'X': 'a', 'Y': None})
    run([('X', 'b'), ('Y', 'a')], {'X': 'a', 'Y': None})
    run([('X', 'b'), ('X', 'a')], {'X': 'a', 'Y': None})
    run([('X', 'a', 'insert'), ('X', None)], {'X': 'a'})
    run(TWICE, {'X': 'a', 'Y': None}, nworkers=0)
    run(TWICE, {'X': None, 'Y': None}, nworkers=0)
    run(INSERTS, {'X': None, 'Y': None}, nworkers=0)
    run([('X', 'a', 'insert'), ('X', None), ('Y', 'a')], {'X': 'a', 'Y': None})
    run([('X', 'b'), ('X', 'a'), ('Y', 'a')], {'X': 'a', 'Y': None})
    run([('X', None), ('X', 'a'), ('Y', 'a')], {'X': 'a', 'Y': None})
    run(RETRY, {'X': 'a', 'Y': None}, nworkers=0)
    run(TWICE, {'X': 'a', 'Y': None}, variant='adoptfirst', nworkers=0)
    run(RETRY, {'X': 'a', 'Y': None}, variant='leave', nworkers=0)
    run([('X', 'a', 'insert'), ('X', None)], {'X': 'a'}, variant='leave')
    run([('X', 'b'), ('X', 'a'), ('Y', 'a')], {'X': 'a', 'Y': None}, variant='entityfirst')
    run([('X', 'b'), ('X', 'a'), ('Y', 'a')], {'X': 'a', 'Y': None}, variant='takepending')
    run([('X', 'b'), ('Y', 'b')], {'X': 'a', 'Y': None}, variant='noabort')
    sys.exit(1 if unexpected else 0)
