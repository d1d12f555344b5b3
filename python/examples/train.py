"""A small network trained with data parallelism, which survives the loss of a worker.

    oshrun -n 4 --mode raid5 --kill 2@5 python train.py

Each PE computes the gradient of its part of each batch, and all PEs follow the sum of these. The
weights and the optimizer's moments are NumPy arrays in symmetric memory, so checkpoints hold them.
After a loss training repeats the batches since the last checkpoint, and ends with the bits of a
run without a loss. The lines that make the program survive are marked `survival`.
"""

import hashlib
import sys

import numpy as np
import raidshmem  # survival
from shmem4py import shmem

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20  # a checkpoint follows each
BATCHES, BATCH = 25, 200  # batches of a step, and points of a batch on all PEs together
SIZES = [(2, 32), (32,), (32, 32), (32,), (32, 1), (1,)]  # weights and biases of three layers
RATE, DECAY, SQUARES = 2e-2, 0.9, 0.999

me, pes = shmem.my_pe(), shmem.n_pes()


def spirals(count, seed):
    """Returns points of two spirals that turn around each other, and the spiral of each."""
    random = np.random.default_rng(seed)
    which = random.integers(0, 2, count)
    along = random.uniform(0.1, 1, count)
    angle = 3 * np.pi * along + np.pi * which
    points = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return points + random.normal(0, 0.01, points.shape), which[:, None].astype(float)


def forward(weights, points):
    """Returns the activations of each layer; the last is the chance of the second spiral."""
    at = [points]
    for layer in range(0, len(weights), 2):
        sums = at[-1] @ weights[layer] + weights[layer + 1]
        last = layer + 2 == len(weights)
        at.append(1 / (1 + np.exp(-sums)) if last else np.tanh(sums))
    return at


def backward(weights, points, labels):
    """Returns the summed loss of these points, and its gradient for each of the weights."""
    at = forward(weights, points)
    chance = np.clip(at[-1], 1e-12, 1 - 1e-12)
    loss = -np.sum(labels * np.log(chance) + (1 - labels) * np.log(1 - chance))
    gradient, back = [], at[-1] - labels
    for layer in range(len(weights) - 2, -1, -2):
        gradient[:0] = [at[layer // 2].T @ back, back.sum(0)]
        back = (back @ weights[layer].T) * (1 - at[layer // 2] ** 2)
    return loss, gradient


def parts(flat):
    """Returns views of an array for each of the weights."""
    ends = np.cumsum([np.prod(size) for size in SIZES])
    return [part.reshape(size) for part, size in zip(np.split(flat, ends[:-1]), SIZES)]


def begin():
    """Returns the arrays: weights and moments, identical on all PEs, and sums over PEs."""
    count = sum(int(np.prod(size)) for size in SIZES)
    data = {name: raidshmem.zeros(count) for name in ("weights", "mean", "square")}  # survival
    random = np.random.default_rng(1)
    for weights in parts(data["weights"])[::2]:
        weights[:] = random.normal(0, 1 / np.sqrt(len(weights)), weights.shape)
    own, total = raidshmem.zeros(count + 1), raidshmem.zeros(count + 1)  # survival
    return {**data, "own": own, "total": total}


def step(data, number):
    """Follows the gradients of some batches, by Adam's rule."""
    for batch in range(number * BATCHES, (number + 1) * BATCHES):
        points, labels = spirals(BATCH, seed=[7, batch])
        loss, gradient = backward(parts(data.weights), points[me::pes], labels[me::pes])
        data.own[:] = np.concatenate([*(part.ravel() for part in gradient), [loss]]) / BATCH
        shmem.sum_reduce(data.total, data.own)
        data.mean += (1 - DECAY) * (data.total[:-1] - data.mean)
        data.square += (1 - SQUARES) * (data.total[:-1] ** 2 - data.square)
        mean = data.mean / (1 - DECAY ** (batch + 1))
        square = data.square / (1 - SQUARES ** (batch + 1))
        data.weights -= RATE * mean / (np.sqrt(square) + 1e-8)
    return number + 1 == STEPS


data = raidshmem.run(begin, step)  # survival
if me == 0:
    points, labels = spirals(2000, seed=8)
    right = np.mean((forward(parts(data.weights), points)[-1] > 0.5) == labels)
    bits = hashlib.sha256(data.weights.tobytes()).hexdigest()[:16]
    loss = float(data.total[-1])
    print(f"train loss {loss!r}, {right:.1%} of new points right, weights {bits}", flush=True)
