"""Every call of the package, one after the other, with a PE that kills itself.

    oshrun -n 4 --mode raid5 python calls.py
"""

import os
import signal

import numpy as np
import raidshmem
from shmem4py import shmem

me, pes = shmem.my_pe(), shmem.n_pes()
original = raidshmem.algo_init()

private = np.zeros(1, "i8")
raidshmem.protect("private", private)
while True:  # the first checkpoint, at which a substitute meets the other PEs
    try:
        raidshmem.checkpoint_all()
        break
    except raidshmem.Lost as lost:
        assert lost.pes == {1: "process"} == raidshmem.query_fault(), lost.pes
        raidshmem.restart_pes()
        assert not raidshmem.faulted() and raidshmem.query_fault() == {}
        if not original:
            break

if original:
    shared = raidshmem.array(np.arange(4) + 10 * me)
    scratch = raidshmem.zeros((2, 3), "f4")
    assert scratch.shape == (2, 3) and not scratch.any()
    raidshmem.exclude(scratch)
    raidshmem.include(scratch)
    try:
        raidshmem.exclude(np.zeros(3))
        raise SystemExit("private memory was excluded")
    except ValueError as error:
        assert "exclude" in str(error), error
    far = np.empty_like(shared)
    assert raidshmem.get(far, shared, (me + 1) % pes)
    assert (far == np.arange(4) + 10 * ((me + 1) % pes)).all(), far
    shmem.barrier_all()
    raidshmem.free(scratch)
    try:
        raidshmem.CheckpointSet("/nowhere")
        raise SystemExit("there is a set")
    except OSError as error:
        assert "/nowhere" in str(error), error
    drawn = np.random.rand(3)
    had = drawn.copy()
    raidshmem.event(drawn)
    assert (drawn == had).all(), drawn
    private[0] = 100 + me
    assert raidshmem.need_checkpoint() and not raidshmem.should_stop()
    raidshmem.checkpoint_all()
    assert raidshmem.flush() and raidshmem.protected(2) and not raidshmem.protected(3)
    assert raidshmem.checkpoint_number() == 2
    assert raidshmem.survives(0, me) and raidshmem.survives(0, pes) is None
    private[0] = -1
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        raidshmem.checkpoint_all()
        raise SystemExit("nobody was lost")
    except raidshmem.Lost as lost:
        assert lost.pes == {1: "process"}, lost.pes
    assert raidshmem.faulted() and not raidshmem.get(far, shared, 0) and not far.any()
    assert raidshmem.last_error() is None
    raidshmem.restart_pes()
    assert (shared == np.arange(4) + 10 * me).all(), shared

assert private[0] == 100 + me, private
raidshmem.checkpoint_all()
print(f"PE {me}: ok", flush=True)
