"""Shrink mode, call by call, with a PE that kills itself.

    SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none oshrun -n 4 --mode raid5 python fewer.py
"""

import os
import signal

import numpy as np
import raidshmem
from shmem4py import shmem

me, pes, lost = shmem.my_pe(), shmem.n_pes(), 1
world = shmem.TEAM_WORLD
told = []
raidshmem.on_fault(lambda pe, how: told.append((pe, how)))
shared = raidshmem.array(np.arange(4) + 10 * me)
copies = raidshmem.zeros(4, "i8")
assert raidshmem.failed(world) == []
assert raidshmem.agree(world, 6 | 1 << me) == (6 | (1 << pes) - 1 & 6, True)
assert raidshmem.get_checkpoint(np.empty_like(shared), shared, lost) is None  # no checkpoint yet
raidshmem.checkpoint_all()
if me == lost:
    os.kill(os.getpid(), signal.SIGKILL)
while not raidshmem.agree(world, int(raidshmem.failed(world) != [])).value:
    pass  # until all PEs know
assert raidshmem.failed(world) == [lost]
value, acknowledged = raidshmem.agree(world, 5)
assert value == 5 and not acknowledged, (value, acknowledged)
assert told == [(lost, "process")], told
assert raidshmem.faulted() and raidshmem.acknowledge() == {lost: "process"}
assert not raidshmem.faulted() and raidshmem.acknowledge() == {}

far = np.full_like(shared, 7)
assert raidshmem.get_checkpoint(far, shared, lost) == 1
assert (far == np.arange(4) + 10 * lost).all(), far
shared += 100
raidshmem.checkpoint_all()  # of the survivors
assert raidshmem.get_checkpoint(far, shared, lost) is None
assert raidshmem.get_checkpoint(far, shared, 2) == 2 and (far == np.arange(4) + 120).all(), far
shared -= 100
living = raidshmem.shrink(world)
living.sync()  # no PE is read before it has restored the value
far[:] = 7
assert not raidshmem.get(far, shared, lost) and not far.any(), far
assert raidshmem.get(far, shared, 0) and (far == np.arange(4)).all(), far

assert raidshmem.shadow(living, 0) == 1  # all are on one node
assert living.n_pes() == pes - 1 and living.my_pe() == me - (me > lost)
assert raidshmem.agree(living, 3) == (3, True) and raidshmem.failed(living) == []
if me == 0:
    ours = np.arange(4) + 100
    assert raidshmem.put2(copies, ours, 2, 3)
    assert not raidshmem.put2(copies, ours + 1, 2, lost)
living.sync()
assert (copies == (0 if me == 0 else np.arange(4) + 100 + (me == 2))).all(), copies
living.destroy()
print(f"PE {me}: ok", flush=True)
