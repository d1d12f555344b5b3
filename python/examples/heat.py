"""Heat in a rod, distributed over NumPy arrays: a stencil that survives the death of its PEs.

    oshrun -n 4 --mode raid5 --kill 2@50 python heat.py
"""

import sys

import numpy as np
import raidshmem
from shmem4py import shmem

CELLS = 1000  # per PE, between the two halo cells
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200

me, pes = shmem.my_pe(), shmem.n_pes()


def begin():
    """Returns a rod that is cold except at its left end."""
    rod = raidshmem.zeros(CELLS + 2)
    if me == 0:
        rod[0] = 100.0
    return {"rod": rod, "own": raidshmem.zeros(1), "sum": raidshmem.zeros(1)}


def step(data, number):
    """Sends edges to the neighbours, then sets each cell to the mean of its neighbours."""
    rod = data.rod
    if me > 0:
        shmem.put(rod[-1:], rod[1:2], me - 1)
    if me < pes - 1:
        shmem.put(rod[:1], rod[-2:-1], me + 1)
    shmem.barrier_all()
    rod[1:-1] = 0.5 * (rod[:-2] + rod[2:])
    shmem.barrier_all()
    data.own[0] = rod[1:-1].sum()
    return number + 1 == STEPS


data = raidshmem.run(begin, step)
shmem.sum_reduce(data.sum, data.own)
if me == 0:
    print(f"heat {data.sum[0]!r} after {STEPS} steps of {np.dtype(float)}", flush=True)
